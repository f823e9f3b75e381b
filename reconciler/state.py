"""Everything the informers have seen, indexed by what the planners ask for. Rebuilt from lists, never stored.

Changes name the work that they may concern; nothing is decided here.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Container, Iterable
from typing import TypeVar

from common.domain import admission, keys
from common.domain.gpu_class import GpuClass
from common.domain.pod import NodeView, PodView
from common.domain.reservation import OPENABLE, TERMINAL, ObjectKey, Reservation
from common.domain.unplaced import is_unplaced
from reconciler import concerns
from reconciler.queue import Kind, Work

MAX_FINISHED = 100_000
"""Tokens and uids of pods that are over, remembered until their claims are dropped; past this the 60 s rule serves."""

Pods = dict[str, PodView]
K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class ClusterState:
    def __init__(self, touch: Callable[[Work], None]) -> None:
        self._touch = touch
        self.reservations: dict[ObjectKey, Reservation] = {}
        self.classes: dict[str, GpuClass] = {}
        self._class_of_label: dict[str, GpuClass] = {}
        self._pods: dict[str, Pods] = defaultdict(dict)
        self._by_label: dict[str, Pods] = defaultdict(dict)
        self._on_node: dict[str, Pods] = defaultdict(dict)
        self._waiting: dict[tuple[str, str], Pods] = defaultdict(dict)
        self._unplaced: dict[tuple[str, str], Pods] = defaultdict(dict)
        self._nodes: dict[str, dict[str, NodeView]] = defaultdict(dict)
        self._of_namespace: dict[str, dict[str, Reservation]] = defaultdict(dict)
        self._of_class: dict[str, dict[ObjectKey, Reservation]] = defaultdict(dict)
        self._finished: OrderedDict[str, None] = OrderedDict()
        self._awaited: dict[str, str] = {}

    # What the planners ask

    def class_of(self, label: str) -> GpuClass | None:
        return self._class_of_label.get(label)

    def known_labels(self) -> list[str]:
        return sorted(self._class_of_label)

    def pods_in(self, namespace: str) -> Iterable[PodView]:
        return self._pods.get(namespace, {}).values()

    def pod(self, namespace: str, uid: str) -> PodView | None:
        return self._pods.get(namespace, {}).get(uid)

    def waiting(self, namespace: str, label: str) -> list[PodView]:
        return list(self._waiting.get((namespace, label), {}).values())

    def all_waiting(self, label: str) -> list[PodView]:
        return [pod for work in self.waiting_slices(label) for pod in self.waiting(work.namespace, work.name)]

    def unplaced(self, namespace: str, label: str) -> list[PodView]:
        return list(self._unplaced.get((namespace, label), {}).values())

    def all_unplaced_slices(self) -> list[Work]:
        return [Work(Kind.UNPLACED, namespace, label) for namespace, label in self._unplaced]

    def nodes_of(self, label: str) -> list[NodeView]:
        return list(self._nodes.get(label, {}).values())

    def pods_counted(self, label: str) -> list[PodView]:
        """Pods that carry the class's label or run on its nodes, each once."""
        pods = dict(self._by_label.get(label, {}))
        for node in self._nodes.get(label, {}):
            pods.update(self._on_node.get(node, {}))
        return list(pods.values())

    def reservations_in(self, namespace: str) -> list[Reservation]:
        return list(self._of_namespace.get(namespace, {}).values())

    def reservations_of(self, class_name: str) -> list[Reservation]:
        return list(self._of_class.get(class_name, {}).values())

    @property
    def finished(self) -> Container[str]:
        """Tokens and uids of pods that were seen stored and are over."""
        return self._finished

    def forget_finished(self, tokens: Iterable[str]) -> None:
        for token in tokens:
            self._finished.pop(token, None)

    def forget_all_finished(self) -> None:
        """What was seen of a history that has ended has not happened: who was over then may live now."""
        self._finished.clear()

    def waiting_slices(self, label: str) -> list[Work]:
        return [work for work in self.all_waiting_slices() if work.name == label]

    def told_in_vain(self) -> list[Work]:
        """Pods that were let in by a leader that fell before it took back what it had told them."""
        pods = (pod for pods in self._pods.values() for pod in pods.values())
        return [Work(Kind.TELLING, pod.namespace, pod.uid) for pod in pods if concerns.told_in_vain(pod)]

    def all_waiting_slices(self) -> list[Work]:
        return [Work(Kind.SLICE, namespace, label) for namespace, label in self._waiting]

    def waits_for(self, pod: PodView, reservation: str | None) -> None:
        """Note which reservation a waiting pod was last told to wait for."""
        if self._awaited.get(pod.uid) != reservation:
            self._waits_no_more(pod)
            if reservation is not None:
                self._awaited[pod.uid] = reservation
                self._touch(Work(Kind.SUMMARY, pod.namespace, reservation))

    def waiting_for(self, key: ObjectKey) -> int:
        """Pods that were last told to wait for this reservation."""
        slots = [pods for (namespace, _), pods in self._waiting.items() if namespace == key.namespace]
        return sum(1 for pods in slots for uid in pods if self._awaited.get(uid) == key.name)

    # What the informers tell

    def on_pod(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None:
            self._take_out(old)
        if new is not None:
            self._put_in(new)
        pod = new or old
        if pod is None:
            return
        replaced = old is not None and (new is None or new.uid != old.uid)
        if old is not None and replaced:
            self._remember_finished(old)
        if new is not None and not new.live:
            self._remember_finished(new)
        if old is not None and (replaced or not admission.waits(pod)):
            self._waits_no_more(old)
        self._touch_after(old, new)
        self._touch_reservations_of(pod, over=replaced or not pod.live)

    def _touch_after(self, old: PodView | None, new: PodView | None) -> None:
        """What a change of a pod is read by."""
        if old is None or new is None or concerns.decided_by(old) != concerns.decided_by(new):
            for view in {v.class_label: v for v in (old, new) if v is not None and v.class_label}.values():
                self._touch(Work(Kind.SLICE, view.namespace, view.class_label))
        if old is None or new is None or concerns.counted_by(old) != concerns.counted_by(new):
            self._touch_counts(old, new)
        if new is not None and concerns.told_in_vain(new):
            self._touch(Work(Kind.TELLING, new.namespace, new.uid))
        if new is not None and is_unplaced(new) and not self._promised(new):
            self._touch(Work(Kind.UNPLACED, new.namespace, new.class_label))

    def on_node(self, old: NodeView | None, new: NodeView | None) -> None:
        if old is not None and old.class_label:
            _forget(self._nodes, old.class_label, old.name)
        if new is not None and new.class_label:
            self._nodes[new.class_label][new.name] = new
        for label in {n.class_label for n in (old, new) if n is not None and n.class_label}:
            self._touch_label(label)

    def on_class(self, old: GpuClass | None, new: GpuClass | None) -> None:
        if old is not None:
            self.classes.pop(old.name, None)
        if new is not None:
            self.classes[new.name] = new
        labels = {c.label for c in (old, new) if c is not None}
        for label in labels:
            self._elect_class(label)
        if old is not None and new is not None and (old.uid, old.generation) == (new.uid, new.generation):
            return  # only its status changed, which is what we write
        names = {c.name for c in (old, new) if c is not None}
        # Of several classes with one label value another one may decide from now on.
        names |= {c.name for c in self.classes.values() if c.label in labels}
        for name in names:
            self._touch(Work(Kind.CLASS, "", name))
            self._touch(Work(Kind.COUNT, "", name))
            for reservation in self.reservations_of(name):
                self._touch(Work(Kind.RESERVATION, *reservation.key))
        for work in self.all_waiting_slices():
            if work.name in labels or work.name not in self._class_of_label:
                self._touch(work)
        self._touch_unplaced(lambda work: work.name in labels)

    def on_reservation(self, old: Reservation | None, new: Reservation | None) -> None:
        if old is not None:
            self.reservations.pop(old.key, None)
            _forget(self._of_namespace, old.namespace, old.name)
            _forget(self._of_class, old.wish.gpu_class, old.key)
        if new is not None:
            self.reservations[new.key] = new
            self._of_namespace[new.namespace][new.name] = new
            self._of_class[new.wish.gpu_class][new.key] = new
        reservation = new or old
        if reservation is None:
            return
        self._touch(Work(Kind.RESERVATION, *reservation.key))
        if new is None:
            self._touch(Work(Kind.SUMMARY, *reservation.key))
        if new is None or new.phase in TERMINAL or concerns.lets_go(old, new):
            self._touch_unplaced(lambda work: work.namespace == reservation.namespace)
        if old is not None and new is not None and concerns.admits_by(old) == concerns.admits_by(new):
            return  # only what people read of it changed
        self._touch(Work(Kind.COUNT, "", reservation.wish.gpu_class))
        for namespace, label in list(self._waiting):
            if namespace == reservation.namespace:
                self._touch(Work(Kind.SLICE, namespace, label))

    # Within

    def _put_in(self, pod: PodView) -> None:
        self._pods[pod.namespace][pod.uid] = pod
        if pod.class_label:
            self._by_label[pod.class_label][pod.uid] = pod
        if pod.node:
            self._on_node[pod.node][pod.uid] = pod
        if pod.class_label and admission.waits(pod):
            self._waiting[pod.namespace, pod.class_label][pod.uid] = pod
        if is_unplaced(pod):
            self._unplaced[pod.namespace, pod.class_label][pod.uid] = pod

    def _take_out(self, pod: PodView) -> None:
        _forget(self._pods, pod.namespace, pod.uid)
        _forget(self._by_label, pod.class_label, pod.uid)
        _forget(self._on_node, pod.node, pod.uid)
        _forget(self._waiting, (pod.namespace, pod.class_label), pod.uid)
        _forget(self._unplaced, (pod.namespace, pod.class_label), pod.uid)

    def _remember_finished(self, pod: PodView) -> None:
        for mark in filter(None, (pod.token, pod.uid)):
            self._finished[mark] = None
            self._finished.move_to_end(mark)
        while len(self._finished) > MAX_FINISHED:
            self._finished.popitem(last=False)

    def _touch_reservations_of(self, pod: PodView, *, over: bool) -> None:
        """A pod that is over may hold a claim that it does not carry yet: whoever has claims there is looked at."""
        name = pod.annotations.get(keys.BOOKING_REFERENCE)
        if name:
            self._touch(Work(Kind.RESERVATION, pod.namespace, name))
        if over or (pod.token and not name):
            for reservation in self.reservations_in(pod.namespace):
                if reservation.claims and reservation.name != name:
                    self._touch(Work(Kind.RESERVATION, *reservation.key))

    def _promised(self, pod: PodView) -> bool:
        """Its reservation has its claim and is not over: nothing to look at, of thousands that are being placed."""
        held = self.reservations.get(pod.booking)
        return held is not None and held.phase in OPENABLE and pod.token in held.claims

    def _touch_unplaced(self, concerned: Callable[[Work], bool]) -> None:
        for work in filter(concerned, self.all_unplaced_slices()):
            self._touch(work)

    def _touch_counts(self, old: PodView | None, new: PodView | None) -> None:
        labels = {v.class_label for v in (old, new) if v is not None and v.class_label}
        for view in (old, new):
            if view is not None and view.node:
                labels |= {label for label, nodes in self._nodes.items() if view.node in nodes}
        for label in labels:
            self._touch_label(label)

    def _waits_no_more(self, pod: PodView) -> None:
        before = self._awaited.pop(pod.uid, None)
        if before is not None:
            self._touch(Work(Kind.SUMMARY, pod.namespace, before))

    def _touch_label(self, label: str) -> None:
        gpu_class = self._class_of_label.get(label)
        if gpu_class is not None:
            self._touch(Work(Kind.COUNT, "", gpu_class.name))

    def _elect_class(self, label: str) -> None:
        """Among classes of one label value the oldest decides, the others say Conflict."""
        rivals = [c for c in self.classes.values() if c.label == label]
        if rivals:
            self._class_of_label[label] = min(rivals, key=lambda c: (c.created, c.name))
        else:
            self._class_of_label.pop(label, None)


def _forget(index: dict[K, dict[V, T]], key: K, inner: V) -> None:
    """Take one entry out, and what held it when that was its last."""
    held = index.get(key)
    if held is not None:
        held.pop(inner, None)
        if not held:
            del index[key]
