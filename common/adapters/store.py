"""The reflector's memory: objects by key, moved on by lists, watch events and our own writes. No I/O.

resourceVersions are compared as integers, which Kubernetes has promised for a resource type since 1.35 and held before.
"""

from collections.abc import Callable, Iterator, Mapping, ValuesView
from typing import Generic, Protocol, TypeVar

from common.domain.reservation import ObjectKey


class Versioned(Protocol):
    """What the store asks of a value; its key comes from the kind."""

    @property
    def version(self) -> str: ...


T = TypeVar("T", bound=Versioned)
OnChange = Callable[[T | None, T | None], None]
"""Called with what was known and what is known now: (None, new), (old, new) or (old, None)."""


def number(version: str) -> int:
    """A resourceVersion to compare by; 0 for one that is no number, older than all others."""
    return int(version) if version.isascii() and version.isdigit() else 0


class Store(Generic[T]):
    """`on_change` is called once for every transition, after it; what it raises passes through to the caller."""

    def __init__(self, on_change: OnChange[T]) -> None:
        self._on_change = on_change
        self._objects: dict[ObjectKey, T] = {}
        self._buried: dict[ObjectKey, int] = {}
        """Keys of objects that a write of ours removed, with the version up to which events are older than that."""
        self.progress = 0
        """Version up to which the watch has told everything."""

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def get(self, key: ObjectKey) -> T | None:
        return self._objects.get(key)

    def values(self) -> ValuesView[T]:
        return self._objects.values()

    def replace(self, listed: Mapping[ObjectKey, T], unreadable: frozenset[ObjectKey], version: int) -> None:
        """Take over a whole list of the given version at once, then tell the differences.

        An object that is listed but cannot be read stays as it was known (R4). One that is newer than the list stays
        too: a write of ours returned it, and the watch will tell what came of it. A list that is older than what the
        watch has told means that etcd was restored from a backup: then only the list counts. Where it has come so far
        again, a list still counts more than what it should have shown and does not.
        """
        rewound = version < self.progress
        if rewound:
            self._buried.clear()
            self.progress = version
        before, after = self._objects, dict(listed)
        changed: list[tuple[T | None, T]] = []
        for key, new in listed.items():
            old = before.get(key)
            if old is not None and (new.version == old.version or (not rewound and number(old.version) > version)):
                after[key] = old
            elif old is None and self._is_buried(key, new):
                del after[key]
            else:
                changed.append((old, new))
        gone: list[T] = []
        for key, old in before.items():
            if key in listed:
                continue
            if key in unreadable or (number(old.version) > version and not rewound):
                after[key] = old
            else:
                gone.append(old)
        self._objects = after
        self._advance(version)
        for old in gone:
            self._on_change(old, None)
        for known, new in changed:
            self._on_change(known, new)

    def put(self, key: ObjectKey, new: T) -> None:
        """An ADDED or MODIFIED event; older ones than what is known change nothing."""
        version = number(new.version)
        if not self._is_buried(key, new):
            self._put(key, new, version)
        self._advance(version)

    def remove(self, key: ObjectKey, version: int) -> None:
        """A DELETED event, with the version of the deletion."""
        old = self._objects.get(key)
        if old is not None and number(old.version) <= version:
            del self._objects[key]
            self._on_change(old, None)
        self._advance(version)

    def reach(self, version: int) -> None:
        """A bookmark, or an event whose object cannot be read."""
        self._advance(version)

    def apply(self, key: ObjectKey, new: T) -> bool:
        """An object that a write of ours returned; False when it says nothing new.

        Where the watch has passed its version and the key is not known, the object has been deleted since.
        """
        version = number(new.version)
        if self._is_buried(key, new) or (key not in self._objects and version <= self.progress):
            return False
        return self._put(key, new, version)

    def bury(self, key: ObjectKey, version: int) -> None:
        """Forget an object that a write of ours removed; events up to `version` do not bring it back."""
        old = self._objects.get(key)
        if old is not None and number(old.version) > version:
            return
        if version > self.progress:
            self._buried[key] = max(version, self._buried.get(key, 0))
        if old is not None:
            del self._objects[key]
            self._on_change(old, None)

    def _is_buried(self, key: ObjectKey, new: T) -> bool:
        return bool(self._buried) and number(new.version) <= self._buried.get(key, 0)

    def _put(self, key: ObjectKey, new: T, version: int) -> bool:
        old = self._objects.get(key)
        if old is not None and number(old.version) >= version:
            return False
        self._objects[key] = new
        self._on_change(old, new)
        return True

    def _advance(self, version: int) -> None:
        self.progress = max(self.progress, version)
        if self._buried:
            self._buried = {key: until for key, until in self._buried.items() if until > self.progress}
