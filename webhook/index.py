"""The read model behind every decision: classes, reservations and sums of claims, kept up change by change."""

from collections.abc import Callable, Iterable, Mapping

from common.domain.gpu_class import GpuClass, Mode
from common.domain.reservation import ObjectKey, Reservation

_NONE: Mapping[str, Reservation] = {}


class Index:
    """Looked up once per pod, so every look-up is O(1); the informers tell it of changes, in order."""

    def __init__(self) -> None:
        self._classes: dict[str, GpuClass] = {}
        self._by_label: dict[str, GpuClass] = {}
        self._by_namespace: dict[str, dict[str, Reservation]] = {}
        self._by_class: dict[str, dict[ObjectKey, Reservation]] = {}
        self._claimed: dict[str, int] = {}

    def class_changed(self, old: GpuClass | None, new: GpuClass | None) -> None:
        if old is not None:
            self._classes.pop(old.name, None)
        if new is not None:
            self._classes[new.name] = new
        for label in {item.label for item in (old, new) if item is not None}:
            # The older object wins a label; the reconciler's word on that may not have come yet.
            claimants = (c for c in self._classes.values() if c.label == label and not c.conflict)
            winner = min(claimants, key=lambda c: (c.created, c.name), default=None)
            if winner is None:
                self._by_label.pop(label, None)
            else:
                self._by_label[label] = winner

    def reservation_changed(self, old: Reservation | None, new: Reservation | None) -> None:
        for item in (old, new):
            if item is not None:
                self._forget(item.key)
        if new is not None:
            self._by_namespace.setdefault(new.namespace, {})[new.name] = new
            self._by_class.setdefault(new.wish.gpu_class, {})[new.key] = new
            self._claimed[new.wish.gpu_class] = self.claimed(new.wish.gpu_class) + new.claimed

    def class_of(self, label: str) -> GpuClass | None:
        return self._by_label.get(label)

    def class_named(self, name: str) -> GpuClass | None:
        return self._classes.get(name)

    @property
    def labels(self) -> Iterable[str]:
        return self._by_label.keys()

    @property
    def class_names(self) -> Iterable[str]:
        return self._classes.keys()

    def enforced_in(self, namespace: str) -> list[GpuClass]:
        return [c for c in self._by_label.values() if c.mode_in(namespace) is Mode.ENFORCE]

    def of_namespace(self, namespace: str) -> Iterable[Reservation]:
        return self._by_namespace.get(namespace, _NONE).values()

    def of_class(self, name: str) -> Iterable[Reservation]:
        return self._by_class.get(name, {}).values()

    def reservation(self, key: ObjectKey) -> Reservation | None:
        return self._by_namespace.get(key.namespace, _NONE).get(key.name)

    def claimed(self, class_name: str) -> int:
        return self._claimed.get(class_name, 0)

    def _forget(self, key: ObjectKey) -> None:
        namespace = self._by_namespace.get(key.namespace, {})
        old = namespace.pop(key.name, None)
        if old is None:
            return
        if not namespace:
            del self._by_namespace[key.namespace]
        of_class = self._by_class[old.wish.gpu_class]
        del of_class[key]
        self._claimed[old.wish.gpu_class] -= old.claimed
        if not of_class:
            del self._by_class[old.wish.gpu_class], self._claimed[old.wish.gpu_class]


class LiveReservations:
    """`claims.ReservationView` over the index and the informer that feeds it."""

    def __init__(
        self, index: Index, decode: Callable[[bytes], Reservation], apply: Callable[[Reservation], object]
    ) -> None:
        self._index = index
        self._decode = decode
        self._apply = apply

    def find(self, key: ObjectKey) -> Reservation | None:
        return self._index.reservation(key)

    def learn(self, body: bytes) -> Reservation:
        """Read-your-writes; the informer ignores it if it has seen a newer state already."""
        reservation = self._decode(body)
        self._apply(reservation)
        return reservation
