"""Everything the informers have seen, indexed by what the planners ask for. Rebuilt from lists, never stored.

Changes name the work that they may concern; nothing is decided here.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable, Container, Iterable

from common.domain import admission, keys
from common.domain.gpu_class import GpuClass
from common.domain.pod import NodeView, PodView
from common.domain.reservation import ObjectKey, Reservation
from reconciler.queue import Kind, Work

MAX_FINISHED = 100_000
"""Tokens and uids of pods that are over, remembered until their claims are dropped; past this the 60 s rule serves."""

Pods = dict[str, PodView]


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
        self._nodes: dict[str, dict[str, NodeView]] = defaultdict(dict)
        self._of_namespace: dict[str, dict[str, Reservation]] = defaultdict(dict)
        self._of_class: dict[str, dict[ObjectKey, Reservation]] = defaultdict(dict)
        self._finished: OrderedDict[str, None] = OrderedDict()

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

    def waiting_slices(self, label: str) -> list[Work]:
        return [work for work in self.all_waiting_slices() if work.name == label]

    def told_in_vain(self) -> list[Work]:
        """Pods that were let in by a leader that fell before it took back what it had told them."""
        pods = (pod for pods in self._pods.values() for pod in pods.values())
        return [Work(Kind.TELLING, pod.namespace, pod.uid) for pod in pods if _told_in_vain(pod)]

    def all_waiting_slices(self) -> list[Work]:
        return [Work(Kind.SLICE, namespace, label) for namespace, label in self._waiting]

    # What the informers tell

    def on_pod(self, old: PodView | None, new: PodView | None) -> None:
        if old is not None:
            self._take_out(old)
        if new is not None:
            self._put_in(new)
        pod = new or old
        if pod is None:
            return
        if old is not None and (new is None or new.uid != old.uid):
            self._remember_finished(old)
        if new is not None and not new.live:
            self._remember_finished(new)
        if old is None or new is None or _decided_by(old) != _decided_by(new):
            for view in {v.class_label: v for v in (old, new) if v is not None and v.class_label}.values():
                self._touch(Work(Kind.SLICE, view.namespace, view.class_label))
        if new is not None and _told_in_vain(new):
            self._touch(Work(Kind.TELLING, new.namespace, new.uid))
        self._touch_class(old, new)
        self._touch_reservations_of(pod, over=new is None or not new.live or (old is not None and new.uid != old.uid))

    def on_node(self, old: NodeView | None, new: NodeView | None) -> None:
        if old is not None and old.class_label:
            self._nodes[old.class_label].pop(old.name, None)
        if new is not None and new.class_label:
            self._nodes[new.class_label][new.name] = new
        for label in {n.class_label for n in (old, new) if n is not None and n.class_label}:
            self._touch_label(label)

    def on_class(self, old: GpuClass | None, new: GpuClass | None) -> None:
        if old is not None:
            self.classes.pop(old.name, None)
        if new is not None:
            self.classes[new.name] = new
        for label in {c.label for c in (old, new) if c is not None}:
            self._elect_class(label)
        settled = old is not None and new is not None and old.generation == new.generation
        for gpu_class in {c.name: c for c in (old, new) if c is not None}.values():
            self._touch(Work(Kind.CLASS, "", gpu_class.name))
            for work in self.waiting_slices(gpu_class.label):
                self._touch(work)
            if not settled:
                for reservation in self.reservations_of(gpu_class.name):
                    self._touch(Work(Kind.RESERVATION, *reservation.key))
        if not settled and new is not None:
            for label in list(self._by_label):
                self._touch_unknown(label)

    def on_reservation(self, old: Reservation | None, new: Reservation | None) -> None:
        if old is not None:
            self.reservations.pop(old.key, None)
            self._of_namespace[old.namespace].pop(old.name, None)
            self._of_class[old.wish.gpu_class].pop(old.key, None)
        if new is not None:
            self.reservations[new.key] = new
            self._of_namespace[new.namespace][new.name] = new
            self._of_class[new.wish.gpu_class][new.key] = new
        reservation = new or old
        if reservation is None:
            return
        self._touch(Work(Kind.RESERVATION, *reservation.key))
        self._touch(Work(Kind.CLASS, "", reservation.wish.gpu_class))
        for namespace, label in list(self._waiting):
            if namespace == reservation.namespace and self._waiting[namespace, label]:
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

    def _take_out(self, pod: PodView) -> None:
        for index, key in (
            (self._pods, pod.namespace),
            (self._by_label, pod.class_label),
            (self._on_node, pod.node),
        ):
            index[key].pop(pod.uid, None)
            if not index[key]:
                del index[key]
        slot = self._waiting.get((pod.namespace, pod.class_label))
        if slot is not None:
            slot.pop(pod.uid, None)
            if not slot:
                del self._waiting[pod.namespace, pod.class_label]

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

    def _touch_class(self, old: PodView | None, new: PodView | None) -> None:
        labels = {v.class_label for v in (old, new) if v is not None and v.class_label}
        for view in (old, new):
            if view is not None and view.node:
                labels |= {label for label, nodes in self._nodes.items() if view.node in nodes}
        for label in labels:
            self._touch_label(label)

    def _touch_label(self, label: str) -> None:
        gpu_class = self._class_of_label.get(label)
        if gpu_class is not None:
            self._touch(Work(Kind.CLASS, "", gpu_class.name))

    def _touch_unknown(self, label: str) -> None:
        for work in self.waiting_slices(label):
            self._touch(work)

    def _elect_class(self, label: str) -> None:
        """Among classes of one label value the oldest decides, the others say Conflict."""
        rivals = [c for c in self.classes.values() if c.label == label]
        if rivals:
            self._class_of_label[label] = min(rivals, key=lambda c: (c.created, c.name))
        else:
            self._class_of_label.pop(label, None)


def _told_in_vain(pod: PodView) -> bool:
    return bool(pod.held_reason) and pod.admitted and pod.live


def _decided_by(pod: PodView) -> tuple[object, ...]:
    """What admission reads of a pod that can change: telling a pod why it waits is no reason to decide it again."""
    return (
        pod.uid,
        pod.phase,
        pod.node,
        pod.deleting,
        pod.gates,
        pod.tolerations,
        pod.labels,
        pod.token,
        pod.annotations.get(keys.USE_RESERVATION),
    )
