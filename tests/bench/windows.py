"""Windows open one after the other: how long after its instant is the first patch sent, and the pod let in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tests.bench.arithmetic import percentile
from tests.bench.figures import Absolute, Bound, Figure, Outcome, Verdict, absolute
from tests.bench.held import Opening, opened
from tests.bench.profiling import profiled
from tests.bench.scene import USER, Scene, next_second, pod, sleep_until
from tests.bench.workers import WorkerError
from tests.controlplane.audit import AuditEvent

NAME = "windows"
TIMER_POD = "timer"
HALF, LATER = timedelta(seconds=0.5), timedelta(seconds=0.7)
MOST_SENT_MS, MOST_ACCEPTED_MS = 5.0, 50.0
# Booking and creating takes that long for each window, on a busy machine.
EACH_S, BASE_S = 0.4, 10.0
UNCERTAINTY = re.compile(r"^gpures_clock_uncertainty_seconds (\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Window:
    opening: Opening
    uncertainty_ms: float
    """Of the reconciler's clock at that moment: so much later than the instant may its `now()` reach it."""

    @property
    def sent_ms(self) -> float:
        return _ms(self.opening.sent - self.opening.start)

    @property
    def accepted_ms(self) -> float:
        return _ms(self.opening.accepted[0] - self.opening.start)

    @property
    def after_late_edge_ms(self) -> float:
        """Below zero where the clock was better than its bound."""
        return self.sent_ms - self.uncertainty_ms


def run(scene: Scene) -> Outcome:
    count = scene.several(50, 5)
    windows, timer_ms = _open(scene, count)
    figures = figures_of(windows, timer_ms)
    profiles = []
    if any(row.verdict is Verdict.MISSED for row in figures):
        report = scene.folder / f"{scene.name}-reconciler-windows.txt"
        profiles.append(profiled(scene.product, scene.reconciler, report, lambda: _open(scene, scene.several(10, 3))))
    return Outcome(NAME, figures, profiles)


def figures_of(windows: Sequence[Window], timer_ms: Sequence[float]) -> list[Figure]:
    sent = [window.sent_ms for window in windows]
    edge = [window.after_late_edge_ms for window in windows]
    accepted = [window.accepted_ms for window in windows]
    clock = absolute("clock known to", [window.uncertainty_ms for window in windows], "ms")
    timer = [
        Absolute("bare timer and one patch p50", percentile(timer_ms, 0.5), "ms"),
        Absolute("p99", percentile(timer_ms, 0.99), "ms"),
    ]
    note = "received by the API server, by its audit log"
    return [
        _worst("first patch sent, after the late edge of the window's start, p99", edge, MOST_SENT_MS, [clock, *timer]),
        _worst("first patch sent, after the window's start, p99", sent, None, timer, note),
        Figure(NAME, "earliest patch, after the window's start", min(sent), "ms", len(sent), None, Bound.AT_LEAST, 0.0),
        _worst("pod let in, after the window's start, p99", accepted, MOST_ACCEPTED_MS, timer),
    ]


def _worst(
    name: str, values: Sequence[float], at_most: float | None, beside: Sequence[Absolute], note: str = ""
) -> Figure:
    middle = Absolute("p50", percentile(values, 0.5), "ms")
    bound = Bound.NONE if at_most is None else Bound.AT_MOST
    p99 = percentile(values, 0.99)
    return Figure(NAME, name, p99, "ms", len(values), None, bound, at_most, [middle, *beside], note)


def _open(scene: Scene, count: int) -> tuple[list[Window], list[float]]:
    """One window a second, each in a namespace of its own; half a second later a bare timer does the same work."""
    namespaces = [scene.namespace() for _ in range(count)]
    idle = scene.namespace()
    scene.admin.create(pod(TIMER_POD), namespace=idle)
    first = next_second(BASE_S + EACH_S * count)
    starts = {namespace: first + timedelta(seconds=place) for place, namespace in enumerate(namespaces)}
    for namespace, start in starts.items():
        scene.book(namespace, 1, start)
        scene.tenant.create(pod("train"), namespace=namespace)
    scene.settle()
    if next_second(0) >= first:
        message = f"{count} windows could not be prepared in time: this machine is too slow or too busy"
        raise WorkerError(message)
    uncertainty: dict[str, float] = {}
    for number, (namespace, start) in enumerate(starts.items()):
        sleep_until(start + HALF)
        scene.admin.request(
            "PATCH",
            scene.admin.path("pods", idle, TIMER_POD),
            body=_note(start),
            content_type="application/merge-patch+json",
        )
        sleep_until(start + LATER)
        uncertainty[namespace] = _uncertainty_ms(scene.reconciler.metrics())
        if number % 10 == 0:
            scene.say(f"window {number + 1} of {count}, clock known to {uncertainty[namespace]:.1f} ms")
    scene.settle()
    windows = [Window(opened(scene, name, start, 1), uncertainty[name]) for name, start in starts.items()]
    events = scene.cluster.audit.settled()
    for namespace in (*namespaces, idle):
        scene.admin.delete("namespaces", namespace)
    scene.settle()
    return windows, _timer_ms(events, idle)


def _note(start: datetime) -> dict[str, object]:
    return {"metadata": {"annotations": {"example.com/due": (start + HALF).isoformat()}}}


def _timer_ms(events: Sequence[AuditEvent], namespace: str) -> list[float]:
    """From the instant that the patch itself names."""
    found = []
    for event in events:
        if event.stored and event.namespace == namespace and event.verb == "patch" and event.user != USER:
            due = ((event.request or {}).get("metadata") or {}).get("annotations", {}).get("example.com/due", "")
            if due:
                found.append(_ms(event.received - datetime.fromisoformat(due)))
    return found


def _uncertainty_ms(metrics: str) -> float:
    found = UNCERTAINTY.search(metrics)
    if found is None:
        message = "the reconciler does not tell how well it knows the time"
        raise WorkerError(message)
    return float(found[1]) * 1000


def _ms(span: timedelta) -> float:
    return span.total_seconds() * 1000
