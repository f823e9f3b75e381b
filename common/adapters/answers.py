"""From an HTTP answer of the API server to a value or to one of our errors (`common.domain.errors`)."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

import msgspec

from common.domain.errors import ApiError, Conflict, Gone, NotFound, OutcomeUnknown, Refused, Throttled
from common.domain.time import Instant

_MESSAGE_LIMIT = 1000
_DEFAULT_RETRY_AFTER_S = 1.0
_LONGEST_RETRY_AFTER_S = 60.0

_OK: Final = range(200, 300)
_SERVER_ERRORS: Final = range(500, 600)
_NAMED: Final[dict[int, type[ApiError]]] = {404: NotFound, 409: Conflict, 410: Gone}


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Details(msgspec.Struct, rename="camel"):
    retry_after_seconds: int = 0


class Status(msgspec.Struct, rename="camel"):
    """The `Status` that the API server answers with, or sends as an ERROR event."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


_status = msgspec.json.Decoder(Status)


def error_of(code: int, body: bytes | msgspec.Raw, retry_after: str = "") -> ApiError:
    """The error that stands for a code other than 2xx; its message is the API server's sentence where it sent one."""
    try:
        status = _status.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = Status(message=bytes(body)[:_MESSAGE_LIMIT].decode(errors="replace"))
    message = (status.message or status.reason or "no message")[:_MESSAGE_LIMIT]
    if code == 429:  # noqa: PLR2004
        return Throttled(code, message, _retry_after_s(retry_after, status))
    if code in _NAMED:
        return _NAMED[code](code, message)
    if code in _SERVER_ERRORS:
        return OutcomeUnknown(code, message)
    return Refused(code, message)


def is_ok(code: int) -> bool:
    """Whether the API server did what was asked."""
    return code in _OK


def error_event(raw: bytes | msgspec.Raw) -> ApiError:
    """The error that stands for an ERROR event of a watch."""
    try:
        code = _status.decode(raw).code
    except (msgspec.DecodeError, UnicodeDecodeError):
        code = 0
    return error_of(code or 500, raw)


@functools.lru_cache(maxsize=4)
def date_of(text: str) -> Instant | None:
    """Value of a `Date` header; None for one that cannot be read."""
    try:
        date: datetime = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)


def _retry_after_s(header: str, status: Status) -> float:
    """The header in whole seconds, as the API server sends it; else what the Status says."""
    try:
        seconds = float(header)
    except ValueError:
        seconds = float(status.details.retry_after_seconds) if status.details else 0.0
    return min(max(seconds, 0.0) or _DEFAULT_RETRY_AFTER_S, _LONGEST_RETRY_AFTER_S)
