"""What one granted pod costs the API server in writes, on either way in."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from tests.bench.figures import Absolute, Bound, Figure, Outcome
from tests.bench.held import hold, released
from tests.bench.scene import Scene
from tests.bench.tally import COUNTED, Write, tally

NAME = "writes"
MOST = 2.2


def run(scene: Scene) -> Outcome:
    count = scene.several(100, 10)
    return Outcome(
        NAME,
        [
            row("let in at CREATE", _fast(scene, count), count),
            row("held, then released", _held(scene, count), count),
        ],
    )


def row(told: str, counted: Counter[Write], count: int) -> Figure:
    """Writes a pod, and each kind of them beside; what is not counted too."""
    value = sum(counted[kind] for kind in COUNTED) / count
    kinds = [Absolute(str(kind), counted[kind] / count, "a pod") for kind in Write if counted[kind]]
    name = f"writes a granted pod, {told} ({count} pods)"
    note = "Events and conditions are not in the sum"
    return Figure(NAME, name, value, "", count, None, Bound.AT_MOST, MOST, kinds, note)


def _fast(scene: Scene, count: int) -> Counter[Write]:
    namespace = scene.namespace()
    scene.book(namespace, count)
    scene.settle()
    since = datetime.now(UTC)
    scene.create(namespace, count, 40)
    return _counted(scene, namespace, since, count)


def _held(scene: Scene, count: int) -> Counter[Write]:
    namespace = scene.namespace()
    since = datetime.now(UTC)
    start = hold(scene, namespace, count)
    released(scene, namespace, start, count)
    return _counted(scene, namespace, since, count)


def _counted(scene: Scene, namespace: str, since: datetime, count: int) -> Counter[Write]:
    """With everything that follows: columns, Events, conditions taken back."""
    scene.running(namespace, count)
    scene.settle()
    counted = tally(scene.cluster.audit.settled(), namespace, since)
    scene.clear(namespace)
    return counted
