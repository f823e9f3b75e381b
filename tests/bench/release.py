"""A window opens on many waiting pods: how long until the last is released, beside what the API server can take."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta

from common.adapters.wire import decode_pod
from common.domain import podpatch
from common.domain.reservation import ReservationType, Token
from common.domain.time import Window
from tests.bench import plain_client, workers
from tests.bench.arithmetic import ratios
from tests.bench.figures import Outcome, Verdict, absolute, figure
from tests.bench.held import hold, released
from tests.bench.profiling import profiled
from tests.bench.scene import CLASS, DEADLINE_S, HOUR, Scene, in_turns
from tests.controlplane.polling import until

NAME = "release"
IN_FLIGHT = 16
OURS, CEILING = "ours", "plain client"
MOST_TIMES = 1.2


def run(scene: Scene) -> Outcome:
    count, rounds = scene.several(200, 20), scene.several(5, 1)
    took, first = defaultdict[str, list[float]](list), list[float]()
    for number, name in in_turns((CEILING, OURS), rounds):
        if name == OURS:
            to_first, to_last = _ours(scene, count)
            first.append(to_first * 1000)
            took[OURS].append(to_last)
        else:
            took[CEILING].append(_ceiling(scene, count))
        scene.say(f"round {number + 1} of {rounds}: {name} {took[name][-1]:.2f} s")
    rates = [absolute(name, [count / seconds for seconds in values], "pods/s") for name, values in took.items()]
    beside = [absolute(name, values, "s") for name, values in took.items()]
    name = f"window opens → last of {count} pods released ÷ the same patches from a plain client, {IN_FLIGHT} in flight"
    row = figure(NAME, name, ratios(took[OURS], took[CEILING]), at_most=MOST_TIMES, absolutes=[*beside, *rates])
    figures = [row, figure(NAME, f"window opens → first of {count} pods released", first, "ms")]
    profiles = []
    if row.verdict is Verdict.MISSED:
        report = scene.folder / f"{scene.name}-reconciler-release.txt"
        profiles.append(profiled(scene.product, scene.reconciler, report, lambda: _ours(scene, count)))
    return Outcome(NAME, figures, profiles)


def _ours(scene: Scene, count: int) -> tuple[float, float]:
    namespace = scene.namespace()
    start = hold(scene, namespace, count)
    found = released(scene, namespace, start, count)
    scene.clear(namespace)
    return tuple((found.accepted[place] - start).total_seconds() for place in (0, -1))  # type: ignore[return-value]


def _ceiling(scene: Scene, count: int) -> float:
    """The very patches that we send, on the same kind of pods, as the same account, while our reconciler is stopped."""
    namespace = scene.namespace()
    scene.create(namespace, count, IN_FLIGHT)
    scene.settle()
    account = str(scene.account_file("reconciler"))
    with scene.frozen("reconciler-0"):
        done = workers.call(plain_client.Job(account, IN_FLIGHT, _patches(scene, namespace)))
    # A leader that was stopped for longer than its lease has to take it again.
    until(lambda: scene.product.leader() is not None, DEADLINE_S, "the reconciler leads again")
    scene.clear(namespace)
    return done.seconds


def _patches(scene: Scene, namespace: str) -> list[plain_client.Call]:
    now = datetime.now(UTC).replace(microsecond=0)
    calls = []
    for item in scene.admin.items("pods", namespace):
        pod = decode_pod(json.dumps(item).encode())
        grant = podpatch.Grant(
            token=Token(f"{int(now.timestamp())}-1-{pod.uid}"),
            reservation="sprint",
            kind=ReservationType.BOOKING,
            window=Window(now, now + HOUR),
            units=1,
            class_label=CLASS,
            class_name=CLASS,
            guaranteed_until=now + timedelta(hours=1),
            admitted_at=now,
        )
        version = {"op": "replace", "path": "/metadata/resourceVersion", "value": pod.version}
        body = json.dumps([version, *podpatch.grant_operations(podpatch.parts_of(pod), grant)])
        path = scene.admin.path("pods", namespace, pod.key.name)
        calls.append(plain_client.Call("PATCH", path, body, "application/json-patch+json"))
    return calls
