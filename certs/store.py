"""The two Secrets: read as they are, written only in the place of what was read."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from common.adapters import paths
from common.adapters.answers import Answer
from common.adapters.kube import JSON, MERGE_PATCH
from common.domain.errors import MalformedObject, NotFound

TIMEOUT_S: Final = 5.0
_LABELS: Final = {"app.kubernetes.io/name": "gpu-reservations", "app.kubernetes.io/component": "certificates"}


class Api(Protocol):
    """What certificates ask of `Kube`."""

    async def request(
        self, method: str, path: str, *, body: object = None, content_type: str = JSON, timeout_s: float
    ) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Secret:
    """`version` is empty where the Secret is not there."""

    namespace: str
    name: str
    version: str = ""
    data: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def exists(self) -> bool:
        return bool(self.version)


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str


class _Stored(msgspec.Struct):
    metadata: _Metadata
    data: dict[str, str] | None = None


_stored: Final = msgspec.json.Decoder(_Stored)


async def read(api: Api, namespace: str, name: str) -> Secret:
    """Ask the API server; raises ApiError for everything but "not there"."""
    try:
        answer = await api.request("GET", paths.secrets(namespace, name), timeout_s=TIMEOUT_S)
    except NotFound:
        return Secret(namespace, name)
    try:
        stored = _stored.decode(answer.body)
    except msgspec.DecodeError as error:
        message = f"Secret {name} cannot be read"  # the error may quote what is in it
        raise MalformedObject(message) from error
    data = {key: _decoded(value) for key, value in (stored.data or {}).items()}
    return Secret(namespace, name, stored.metadata.resource_version, data)


async def write(api: Api, before: Secret, data: Mapping[str, bytes]) -> None:
    """Create it, or change these keys of it; raises Conflict when it is not any more as it was read."""
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    if before.exists:
        path = paths.secrets(before.namespace, before.name)
        patch = {"metadata": {"resourceVersion": before.version}, "data": encoded}
        await api.request("PATCH", path, body=patch, content_type=MERGE_PATCH, timeout_s=TIMEOUT_S)
        return
    meta = {"name": before.name, "namespace": before.namespace, "labels": _LABELS}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "type": "kubernetes.io/tls", "data": encoded}
    await api.request("POST", paths.secrets(before.namespace), body=secret, timeout_s=TIMEOUT_S)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return b""
