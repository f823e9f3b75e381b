"""What would become of today's pods if every class were enforced everywhere: read before that is done.

Each live pod of a class that its namespace does not enforce yet is judged as if it were created now.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from common.domain import inventory, keys, routing, texts, tolerations, units
from common.domain.admission import ask_of
from common.domain.gpu_class import GpuClass, Mode
from common.domain.pod import NodeView, PodView
from common.domain.reasons import Hold
from common.domain.reservation import Reservation, Token
from common.domain.time import Instant


class Outcome(StrEnum):
    LET_IN = "let in"
    HELD = "held"
    REFUSED = "refused"
    KEPT_OFF = "kept off"
    """Neither held nor refused: without the label it gets no toleration, so the taint keeps it off."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read of the cluster, at about one instant."""

    classes: Sequence[GpuClass]
    nodes: Sequence[NodeView]
    pods: Sequence[PodView]
    reservations: Sequence[Reservation]
    left_alone: Container[str] = frozenset()
    """Namespaces whose pods never come to us."""


@dataclass(frozen=True, slots=True)
class Line:
    """Pods of one owner that would fare alike; `why` is the sentence of the first."""

    namespace: str
    owner: str
    class_name: str
    outcome: Outcome
    reason: str
    pods: int
    units: int
    why: str


@dataclass(frozen=True, slots=True)
class ClassTotal:
    """`by_outcome` are units. `unreserved` are those that run now without ever having been let in, in any mode."""

    name: str
    mode: Mode
    varies: bool
    """Some namespaces have another mode."""
    by_outcome: Mapping[Outcome, int]
    unreserved: int


@dataclass(frozen=True, slots=True)
class Report:
    lines: tuple[Line, ...]
    """Only of what would not be let in."""
    totals: tuple[ClassTotal, ...]


@dataclass(frozen=True, slots=True)
class _Fate:
    pod: PodView
    gpu_class: GpuClass
    units: int
    outcome: Outcome
    reason: str
    why: str


def plan(seen: Seen, now: Instant, display: texts.Display) -> Report:
    """Lines by namespace, owner and class; totals by class."""
    deciding = _by_label(seen.classes)
    class_of_node = {node.name: node.class_label for node in seen.nodes}
    judge = _Judge(deciding, seen.reservations, now, display)
    fates: list[_Fate] = []
    for pod in sorted(seen.pods, key=lambda p: (p.created, p.key)):
        if not pod.live or pod.deleting or pod.mirror or pod.namespace in seen.left_alone:
            continue
        fate = judge.fate(pod, class_of_node.get(pod.node, ""))
        if fate is not None:
            fates.append(fate)
    totals = [_total(each, seen, fates, now) for each in sorted(deciding.values(), key=lambda c: c.name)]
    return Report(_lines(fates), tuple(totals))


class _Judge:
    """Pods in their order of creation; each that would get in uses up room for those behind it."""

    def __init__(
        self,
        deciding: Mapping[str, GpuClass],
        reservations: Iterable[Reservation],
        now: Instant,
        display: texts.Display,
    ) -> None:
        self._deciding = deciding
        self._mine: dict[str, dict[str, Reservation]] = defaultdict(dict)
        for reservation in reservations:
            self._mine[reservation.namespace][reservation.name] = reservation
        self._now = now
        self._display = display

    def fate(self, pod: PodView, node_class: str) -> _Fate | None:
        """None for a pod that is none of ours, is judged by an enforced class already, or may go on as it does."""
        gpu_class = self._named(pod)
        labelled = gpu_class is not None
        gpu_class = gpu_class or self._deciding.get(pod.class_label or node_class)
        if gpu_class is None or gpu_class.mode_in(pod.namespace) is Mode.ENFORCE:
            return None
        asked = units.pod_units(pod.requests, gpu_class.unit)
        native = units.counted_natively(gpu_class)
        if asked < 1 or (not labelled and native):
            return None
        if pod.token is not None:
            return _Fate(pod, gpu_class, asked, Outcome.LET_IN, "Claimed", "")
        if tolerations.forged(pod.tolerations, pod.requests, [gpu_class]):
            why = f"tolerates {_tolerated(pod)} itself; only an open reservation adds the toleration {keys.TAINT}"
            return _Fate(pod, gpu_class, asked, Outcome.REFUSED, "Toleration", why)
        if not labelled:
            why = f"has no label {keys.CLASS_LABEL}={gpu_class.label}, so it gets no toleration for the class's nodes"
            return _Fate(pod, gpu_class, asked, Outcome.KEPT_OFF, "NoLabel", why)
        return self._routed(pod, gpu_class, asked)

    def _named(self, pod: PodView) -> GpuClass | None:
        """The class that the pod names, or would be made to name in its namespace."""
        if pod.class_label:
            return self._deciding.get(pod.class_label)
        defaults = (c for c in self._deciding.values() if pod.namespace in c.default_for)
        return next((c for c in defaults if units.pod_units(pod.requests, c.unit) > 0), None)

    def _routed(self, pod: PodView, gpu_class: GpuClass, asked: int) -> _Fate | None:
        mine = self._mine[pod.namespace]
        # Nodes hold nobody back here: the pods that would be judged are those that use them.
        route = routing.route(ask_of(pod, gpu_class), gpu_class, list(mine.values()), self._now, None, self._display)
        if isinstance(route, Hold):
            if not routing.held_in(_enforced(gpu_class), pod.namespace):
                return None
            return _Fate(pod, gpu_class, asked, Outcome.HELD, route.reason, route.sentence)
        claims = {**route.reservation.claims, Token(f"report-{pod.uid}"): asked}
        mine[route.reservation.name] = replace(route.reservation, claims=claims)
        return _Fate(pod, gpu_class, asked, Outcome.LET_IN, "Admitted", "")


def _by_label(classes: Iterable[GpuClass]) -> dict[str, GpuClass]:
    """Of classes with one label value the oldest decides."""
    deciding: dict[str, GpuClass] = {}
    for each in sorted((c for c in classes if not c.conflict), key=lambda c: (c.created, c.name)):
        deciding.setdefault(each.label, each)
    return deciding


def _enforced(gpu_class: GpuClass) -> GpuClass:
    return replace(gpu_class, mode=Mode.ENFORCE, mode_for=())


def _tolerated(pod: PodView) -> str:
    exact = any(tolerations.names_taint(toleration) for toleration in pod.tolerations)
    return "the reserved taint" if exact else "every taint"


def _lines(fates: Iterable[_Fate]) -> tuple[Line, ...]:
    groups: dict[tuple[str, str, str, str, str], list[_Fate]] = defaultdict(list)
    for fate in fates:
        if fate.outcome is not Outcome.LET_IN:
            owner = fate.pod.owner or f"Pod/{fate.pod.name}"
            groups[fate.pod.namespace, owner, fate.gpu_class.name, fate.outcome, fate.reason].append(fate)
    return tuple(
        Line(
            namespace=namespace,
            owner=owner,
            class_name=class_name,
            outcome=alike[0].outcome,
            reason=reason,
            pods=len(alike),
            units=sum(fate.units for fate in alike),
            why=alike[0].why,
        )
        for (namespace, owner, class_name, _, reason), alike in sorted(groups.items())
    )


def _total(gpu_class: GpuClass, seen: Seen, fates: Iterable[_Fate], now: Instant) -> ClassTotal:
    by_outcome = dict.fromkeys(Outcome, 0)
    for fate in fates:
        if fate.gpu_class is gpu_class:
            by_outcome[fate.outcome] += fate.units
    nodes = [node for node in seen.nodes if node.class_label == gpu_class.label]
    here = {node.name for node in nodes}
    pods = [pod for pod in seen.pods if pod.class_label == gpu_class.label or pod.node in here]
    reservations = [r for r in seen.reservations if r.wish.gpu_class == gpu_class.name]
    return ClassTotal(
        name=gpu_class.name,
        mode=gpu_class.mode,
        varies=any(mode is not gpu_class.mode for _, mode in gpu_class.mode_for),
        by_outcome=by_outcome,
        unreserved=inventory.count(gpu_class, nodes, pods, reservations, now).units.unreserved,
    )


def printed(report: Report) -> list[str]:
    """Two tables as people read them: pods by owner, units by class; `*` where some namespaces have another mode."""
    lines = [
        (n.namespace, n.owner, n.class_name, n.outcome, n.reason, str(n.pods), str(n.units), n.why)
        for n in report.lines
    ]
    totals = [
        (
            t.name,
            f"{t.mode}*" if t.varies else t.mode,
            *(str(t.by_outcome[outcome]) for outcome in Outcome),
            str(t.unreserved),
        )
        for t in report.totals
    ]
    head = ("NAMESPACE", "OWNER", "CLASS", "WOULD BE", "REASON", "PODS", "UNITS", "WHY")
    nobody = "Nobody would be held or refused if every class were enforced everywhere."
    told = _table([head, *lines]) if lines else [nobody]
    columns = ("CLASS", "MODE", *(outcome.upper() for outcome in Outcome), "UNRESERVED")
    return [*told, "", *(_table([columns, *totals]) if totals else ["There is no GPUClass."])]


def _table(cells: Sequence[Sequence[str]]) -> list[str]:
    clean = [[texts.clip(text, 512) for text in line] for line in cells]
    widths = [max(map(len, column)) for column in zip(*clean, strict=True)]
    return ["   ".join(map(str.ljust, line, widths)).rstrip() for line in clean]
