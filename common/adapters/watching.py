"""From the bytes of lists and watches to transitions of a store. No I/O, no clock."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import msgspec

from common.adapters.answers import error_event
from common.adapters.store import Store, Versioned, number
from common.adapters.wire.metadata import Raw, decode_identity
from common.domain.errors import MalformedObject
from common.domain.reservation import ObjectKey

T = TypeVar("T", bound=Versioned)


@dataclass(frozen=True, slots=True)
class Kind(Generic[T]):
    """One resource as a reflector reads it."""

    name: str
    """Plural, for logs and metrics."""
    path: str
    decode: Callable[[Raw], T]
    key: Callable[[T], ObjectKey]


class ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct):
    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct):
    type: str
    object: msgspec.Raw


_page = msgspec.json.Decoder(Page)
_event = msgspec.json.Decoder(Event)


def decode_page(body: bytes) -> Page:
    """One page of a list, its items still raw; raises MalformedObject."""
    try:
        return _page.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"the answer is no list: {error}"
        raise MalformedObject(msg) from error


def read(kind: Kind[T], raw: Raw) -> T:
    """Decode; whatever a decoder raises is a fault of one object, and must not end the watch of all (R4)."""
    try:
        return kind.decode(raw)
    except MalformedObject:
        raise
    except Exception as error:
        msg = f"{kind.name}: {type(error).__name__}: {error}"
        raise MalformedObject(msg) from error


@dataclass(slots=True)
class Listing(Generic[T]):
    """A list under way. Nothing of it is seen before it is complete."""

    kind: Kind[T]
    objects: dict[ObjectKey, T] = field(default_factory=dict)
    unreadable: set[ObjectKey] = field(default_factory=set)

    def take(self, item: Raw) -> MalformedObject | None:
        """Add an item; returns what is wrong with it, if anything is."""
        try:
            value = read(self.kind, item)
        except MalformedObject as error:
            identity = _identity(item)
            if identity is not None:
                self.unreadable.add(identity[0])
            return error
        self.objects[self.kind.key(value)] = value
        return None

    def finish(self, store: Store[T], version: str) -> None:
        store.replace(self.objects, frozenset(self.unreadable), number(version))


def take_line(kind: Kind[T], store: Store[T], line: bytes) -> MalformedObject | None:
    """Apply one line of a watch; returns what is wrong with its object, if anything is.

    Raises the ApiError that an ERROR event stands for, and MalformedObject when the line is no event at all: then
    nothing is known of what it told, and the watch must begin anew from a list.
    """
    try:
        event = _event.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        msg = f"a line of the watch is no event: {error}"
        raise MalformedObject(msg) from error
    if event.type in ("ADDED", "MODIFIED"):
        return _put(kind, store, event.object)
    if event.type == "ERROR":
        raise error_event(event.object)
    key, version = decode_identity(event.object)
    if event.type == "DELETED":
        store.remove(key, number(version))
    else:
        store.reach(number(version))
    return None


def _put(kind: Kind[T], store: Store[T], raw: Raw) -> MalformedObject | None:
    try:
        value = read(kind, raw)
    except MalformedObject as error:
        identity = _identity(raw)
        if identity is not None:
            store.reach(number(identity[1]))
        return error
    store.put(kind.key(value), value)
    return None


def _identity(raw: Raw) -> tuple[ObjectKey, str] | None:
    try:
        return decode_identity(raw)
    except MalformedObject:
        return None
