"""Certificate and key as files: checked as a pair, and changed under a running server without a lost connection."""

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PublicKeyTypes

from certs.issue import Pair
from certs.validity import Validity
from common.domain.errors import GpuresError
from common.domain.time import Instant

_DAY_S = 86400
_ENOUGH_LEFT: Final = timedelta(hours=24)
_ENOUGH_PART: Final = 10


class BadPair(GpuresError):
    """The files cannot serve: missing, unreadable, no pair, or over."""


@dataclass(frozen=True, slots=True)
class Files:
    cert: Path
    key: Path


@dataclass(frozen=True, slots=True)
class Checked:
    """A pair that belongs together."""

    pair: Pair = field(repr=False)
    valid: Validity

    def days_left(self, now: Instant) -> float:
        return (self.valid.end - now).total_seconds() / _DAY_S

    def ending(self, now: Instant) -> bool:
        """Whether somebody should have renewed it long ago: 24 h are left, or a tenth of a short life."""
        return self.valid.end - now < min(_ENOUGH_LEFT, (self.valid.end - self.valid.start) / _ENOUGH_PART)


def load(files: Files) -> Checked:
    """Read and check; raises BadPair with one sentence."""
    try:
        return check(Pair(files.cert.read_bytes(), files.key.read_bytes()))
    except OSError as error:
        message = f"{error.filename}: {error.strerror}"
        raise BadPair(message) from error


def check(pair: Pair) -> Checked:
    """Whether certificate and key belong together; raises BadPair."""
    try:
        cert = x509.load_pem_x509_certificate(pair.cert)
        key = serialization.load_pem_private_key(pair.key, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        message = f"certificate or key is not PEM that can be read: {error}"
        raise BadPair(message) from error
    if _der(cert.public_key()) != _der(key.public_key()):
        message = "the key does not belong to the certificate"
        raise BadPair(message)
    return Checked(pair, Validity(cert.not_valid_before_utc, cert.not_valid_after_utc))


def serving_context(pair: Pair) -> ssl.SSLContext:
    """TLS 1.2 or newer, as a server; raises BadPair."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        _put(pair, context)
    except OSError as error:
        message = f"certificate and key cannot serve: {error.strerror or error}"
        raise BadPair(message) from error
    return context


class Served:
    """The pair that a running server answers with. New handshakes see a new pair, open connections go on."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._checked = load(files)
        self.context = serving_context(self._checked.pair)

    @property
    def checked(self) -> Checked:
        return self._checked

    def renew(self) -> bool:
        """Take over what the files hold now; False when it is what is served already. Raises BadPair, keeps the old."""
        found = load(self._files)
        if found.pair == self._checked.pair:
            return False
        # A pair that fails half-way would break the live context, so a scratch one goes first. Both load the bytes that
        # were checked: the files may be swapped for the next pair at any moment.
        serving_context(found.pair)
        _put(found.pair, self.context)
        self._checked = found
        return True


async def keep_renewed(
    served: Served,
    told: Callable[[BadPair | None], None],
    pause: Callable[[], Awaitable[object]],
) -> None:
    """Look at the files at every `pause`, for ever; `told` hears of each new pair (None) and of each bad one."""
    while True:
        await pause()
        try:
            renewed = await asyncio.to_thread(served.renew)
        except BadPair as error:
            told(error)
        else:
            if renewed:
                told(None)


def _put(pair: Pair, context: ssl.SSLContext) -> None:
    with _as_file(pair) as path:
        context.load_cert_chain(path)


@contextmanager
def _as_file(pair: Pair) -> Iterator[str]:
    """OpenSSL wants a path. In memory where there is such a thing, so that a read-only disk will do."""
    content = pair.cert.rstrip() + b"\n" + pair.key
    if not hasattr(os, "memfd_create"):
        with NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    with os.fdopen(os.memfd_create("serving", os.MFD_CLOEXEC), "wb") as memory:
        memory.write(content)
        memory.flush()
        yield f"/proc/self/fd/{memory.fileno()}"


def _der(public: PublicKeyTypes) -> bytes:
    return public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
