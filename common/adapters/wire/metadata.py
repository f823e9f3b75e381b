"""`metadata` of every object, and the one way from bytes to a struct or a MalformedObject."""

from collections.abc import Collection
from datetime import UTC, datetime
from functools import lru_cache
from sys import intern
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec

from common.domain.errors import MalformedObject
from common.domain.reservation import ObjectKey
from common.domain.time import Instant

Raw = bytes | msgspec.Raw
Time = Annotated[datetime, msgspec.Meta(tz=True)]
T = TypeVar("T")

UNSTAMPED: Final[Instant] = datetime(1970, 1, 1, tzinfo=UTC)
"""Creation instant of an object that the API server has not stored yet."""


class OwnerWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    kind: str
    name: str
    api_version: str = ""
    uid: str = ""
    controller: bool | None = None


class MetaWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """Everything may be absent, or null, in an object that is only being created."""

    name: str = ""
    namespace: str = ""
    generate_name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 1
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[OwnerWire] | None = None

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(intern(self.namespace), self.name)

    @property
    def created(self) -> Instant:
        return utc(self.creation_timestamp) if self.creation_timestamp is not None else UNSTAMPED


class ConditionWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time | None = None
    observed_generation: int = 0


class Identity(NamedTuple):
    """What is left to know of an object that cannot be read, or is gone."""

    key: ObjectKey
    version: str


class _Names(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Named(msgspec.Struct, frozen=True, gc=False):
    metadata: _Names = _Names()


_named = msgspec.json.Decoder(_Named)


def decode_identity(raw: Raw) -> Identity:
    """Key and resourceVersion of any object."""
    names = decoded(_named, raw, "object").metadata
    return Identity(ObjectKey(intern(names.namespace), names.name), names.resource_version)


def decoded(decoder: msgspec.json.Decoder[T], raw: Raw, kind: str) -> T:
    """Decode, or raise MalformedObject that says which object and which field."""
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        msg = f"{kind} {_name_of(raw)}: {error}"
        raise MalformedObject(msg) from error


def malformed(metadata: MetaWire, kind: str, why: object) -> MalformedObject:
    """The error for a field that is well-formed JSON and still cannot be read."""
    return MalformedObject(f"{kind} {metadata.key}: {why}")


def utc(instant: datetime) -> Instant:
    """The same instant in UTC; what the API server writes already is. Raises MalformedObject beyond the calendar."""
    if instant.tzinfo is UTC:
        return instant
    try:
        return instant.astimezone(UTC)
    except OverflowError as error:
        msg = f"{instant.isoformat()} lies beyond the calendar"
        raise MalformedObject(msg) from error


def optional_utc(instant: datetime | None) -> Instant | None:
    """As `utc`, for what may be absent."""
    return None if instant is None else utc(instant)


_EMPTY: Final[dict[str, str]] = {}
_MANY = 32
_LONG = 2048


def shared(mapping: dict[str, str] | None) -> dict[str, str]:
    """One dict for all objects with the same content, as the pods of a Deployment have: nobody may change it."""
    if not mapping:
        return _EMPTY
    return _shared(tuple(mapping.items())) if light(mapping, mapping.values()) else mapping


@lru_cache(maxsize=8192)
def _shared(items: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {intern(key): intern(value) for key, value in items}


def light(*texts: Collection[str]) -> bool:
    """Small enough to be remembered. Anybody may send huge ones for review, and nobody has validated those yet."""
    return all(len(some) <= _MANY and sum(map(len, some)) <= _LONG for some in texts)


def _name_of(raw: Raw) -> str:
    try:
        names = _named.decode(raw).metadata
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "without a readable name"
    return str(ObjectKey(names.namespace, names.name))
