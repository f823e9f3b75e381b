"""Many creates at once, onto an open reservation and behind the gate alone: what claiming costs at CREATE."""

from __future__ import annotations

from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass

from tests.bench.arithmetic import percentile, ratios
from tests.bench.figures import Figure, Outcome, Verdict, absolute, figure
from tests.bench.profiling import profiled
from tests.bench.scene import Scene, in_turns
from tests.bench.tally import claim_patches, let_in

NAME = "burst"
SCHEDULER = "kube-scheduler"
ALONE, OPEN, BOUND = "gate alone", "open reservation", "open reservation, scheduler running"
LEAST_PACE, MOST_PATCHES = 0.95, 0.1


@dataclass(frozen=True)
class Burst:
    per_s: float
    p50_ms: float
    p99_ms: float
    let_in: float
    """Share of the pods."""
    patches: float
    """Claim patches a pod."""
    throttled: int


def run(scene: Scene) -> Outcome:
    count, in_flight, rounds = scene.several(400, 40), scene.several(200, 20), scene.several(5, 1)
    found = defaultdict[str, list[Burst]](list)
    for number, name in in_turns((ALONE, OPEN, BOUND), rounds):
        found[name].append(_burst(scene, name, count, in_flight))
        scene.say(f"round {number + 1} of {rounds}: {name} {found[name][-1].per_s:.0f} pods/s")
    figures = _figures(found, count, in_flight)
    profiles = []
    if any(row.verdict is Verdict.MISSED for row in figures):
        report = scene.folder / f"{scene.name}-webhook-burst.txt"
        # One replica of two sees half of it.
        work = lambda: _burst(scene, OPEN, count, in_flight)  # noqa: E731
        profiles.append(profiled(scene.product, scene.webhook, report, work))
    return Outcome(NAME, figures, profiles)


def _burst(scene: Scene, name: str, count: int, in_flight: int) -> Burst:
    """Without the scheduler: it would place the pods that are let in on the same cores, and those held it would not."""
    namespace = scene.namespace()
    if name != ALONE:
        scene.book(namespace, count)
    scene.settle()
    with nullcontext() if name == BOUND else scene.frozen(SCHEDULER):
        done = scene.create(namespace, count, in_flight)
    events = scene.cluster.audit.settled()
    inside, created = let_in(events, namespace)
    result = Burst(
        per_s=count / done.seconds,
        p50_ms=percentile(done.latencies_ms, 0.5),
        p99_ms=percentile(done.latencies_ms, 0.99),
        let_in=inside / created,
        patches=claim_patches(events, namespace) / created,
        throttled=done.throttled,
    )
    scene.clear(namespace)
    return result


def _figures(found: dict[str, list[Burst]], count: int, in_flight: int) -> list[Figure]:
    pace = {name: [burst.per_s for burst in bursts] for name, bursts in found.items()}
    paces = [absolute(name, values, "pods/s") for name, values in pace.items()]
    times = [
        absolute(f"{name}: {share}", [getattr(burst, field) for burst in bursts], "ms")
        for name, bursts in found.items()
        for share, field in (("p50", "p50_ms"), ("p99", "p99_ms"))
    ]
    size = f"{count} creates, {in_flight} in flight"
    throttled = sum(burst.throttled for bursts in found.values() for burst in bursts)
    open_ = found[OPEN] + found[BOUND]
    return [
        figure(NAME, f"let in at CREATE ({size})", [burst.let_in for burst in open_], "", at_least=1.0),
        figure(
            NAME,
            "pods/s onto an open reservation ÷ behind the gate alone",
            ratios(pace[OPEN], pace[ALONE]),
            at_least=LEAST_PACE,
            absolutes=paces[:2],
            note="scheduler stopped in both",
        ),
        figure(NAME, "claim patches a pod", [burst.patches for burst in open_], "", at_most=MOST_PATCHES),
        figure(NAME, "the same pace while the scheduler binds", ratios(pace[BOUND], pace[ALONE]), absolutes=paces[2:]),
        figure(
            NAME,
            "p99 of a create onto an open reservation ÷ behind the gate alone",
            ratios([burst.p99_ms for burst in found[OPEN]], [burst.p99_ms for burst in found[ALONE]]),
            absolutes=times,
            note=f"{throttled} creates throttled by the API server",
        ),
    ]
