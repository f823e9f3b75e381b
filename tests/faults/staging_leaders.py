"""How reconcilers are broken: the leader, its lease, its watches and its writes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

from tests.controlplane.polling import NotInTimeError, until
from tests.controlplane.product import NAMESPACE
from tests.controlplane.proxy_rules import PASS, Answer, Exchange, Outcome, answering
from tests.e2e.leaders import ANNOUNCE, CLAIM, CONFIRM, DROP_CLAIM, OPEN, SWAP, Candidate
from tests.faults.timing import lasts, monotonic
from tests.faults.world import World

LEASES = "leases.coordination.k8s.io"
LEASE = "gpures-reconciler"
WRITES = {"announce": ANNOUNCE, "counter": SWAP, "confirm": CONFIRM, "claim": CLAIM, "open": OPEN, "drop": DROP_CLAIM}
BRIEFLY = (("claim", "after"), ("open", "before"))
REACHED_S = 20.0
DEADLINE_S = 60.0
NOISE = "/leases|/events"
WATCHES = "[?&]watch="


def killed(world: World) -> Sequence[str]:
    points = BRIEFLY if world.brief else tuple(itertools.product(WRITES, ("before", "after")))
    told = []
    for name, when in points:
        leader = world.leader()
        leader.dies_at(WRITES[name], "before" if when == "before" else "after")
        try:
            until(lambda each=leader: not each.replica.child.running, REACHED_S, "dead")  # type: ignore[misc]
        except NotInTimeError:
            told.append(f"{name} was not written in time")
            leader.proxy.clear()
            continue
        took = world.takes_over(world.other(leader), monotonic())
        told.append(f"{when} {name}: followed within {took:.1f} s")
        leader.proxy.clear()
        leader.replica.child.start()
        until(leader.replica.ready, DEADLINE_S, "ready again")
    return told


def frozen(world: World) -> Sequence[str]:
    first, began = world.leader(), monotonic()
    first.replica.child.freeze()
    took = world.takes_over(world.other(first), began)
    world.lasts(15, 3)
    first.replica.child.thaw()
    until(lambda: _leaders(world) == [world.other(first)], DEADLINE_S, "the thawed one follows")
    return [f"followed within {took:.1f} s"]


def cut_off(world: World) -> Sequence[str]:
    first, began = world.leader(), monotonic()
    with first.proxy.partitioned():
        took = world.takes_over(world.other(first), began)
        until(lambda: not first.leads(), DEADLINE_S, "who is cut off stops by itself")
        world.lasts(10, 2)
    return [f"followed within {took:.1f} s"]


def two(world: World) -> Sequence[str]:
    """The first is told that it holds the lease for ever; the second sees that nobody renews it."""
    first = world.leader()
    second = world.other(first)
    stored = json.dumps(world.admin.get(LEASES, LEASE, NAMESPACE)).encode()

    async def lie(_: Exchange) -> Outcome:
        return Answer(200, stored)

    rule = first.proxy.rule(lie, path=f"/leases/{LEASE}", times=None)
    until(second.leads, DEADLINE_S, "the second leads")
    until(first.leads, DEADLINE_S, "the first does not know")
    began, beginnings = monotonic(), [len(each.writes()) for each in (first, second)]
    world.lasts(60, 7)
    wrote = [len(each.writes()) - before for each, before in zip((first, second), beginnings, strict=True)]
    both = first.leads() and second.leads()
    first.proxy.remove(rule)
    until(lambda: len(_leaders(world)) == 1, DEADLINE_S, "one leads")
    if not both or not all(wrote):
        message = f"both were to lead: {both}, writes {wrote}"
        raise RuntimeError(message)
    return [f"both led for {monotonic() - began:.0f} s and tried {wrote[0]} and {wrote[1]} writes"]


def watches_stall(world: World) -> Sequence[str]:
    """Of the leader and of one webhook; in the long form until they notice it themselves."""
    broken = (world.leader(), world.webhooks[0])
    before = sum(len(each.proxy.writes()) for each in broken)
    stalls = [each.proxy.stall_watches("") for each in broken]
    if world.brief:
        lasts(7)
        told = "let go after 7 s"
    else:
        began, failures = monotonic(), _failures(broken[0])
        until(lambda: _failures(broken[0]) > failures, 150.0, "a stalled watch is opened anew")
        told = f"noticed after {monotonic() - began:.0f} s"
    for stall in stalls:
        stall.release()
    for each in broken:
        each.proxy.clear()
    return [told, f"{sum(len(each.proxy.writes()) for each in broken) - before} writes meanwhile"]


def watches_cut(world: World) -> Sequence[str]:
    for _ in range(3 if world.brief else 8):
        for each in world.ours:
            each.proxy.cut_watches()
        lasts(2)
    return ()


def watches_gone(world: World) -> Sequence[str]:
    for each in world.ours:
        each.proxy.rule(answering(410, "Expired"), method="GET", path=WATCHES, times=None)
        each.proxy.cut_watches()
    world.lasts(15, 5)
    for each in world.ours:
        each.proxy.clear()
    return ()


def writes_refused(world: World) -> Sequence[str]:
    """Every other write of each process, in turn with 429 and with 503, both with and without Retry-After."""
    answers = itertools.cycle(
        (answering(429, "TooManyRequests", retry_after_s=1), answering(503, "ServiceUnavailable"))
    )

    for each in world.ours:
        turns = itertools.count()

        async def half(exchange: Exchange, turns: itertools.count[int] = turns) -> Outcome:
            if "/leases" in exchange.path or next(turns) % 2:
                return PASS
            return await next(answers)(exchange)

        each.proxy.rule(half, method="PATCH|POST|PUT", times=None)
    before = _written(world)
    world.lasts(15, 6)
    for each in world.ours:
        each.proxy.clear()
    return [f"{_written(world) - before} writes tried"]


def writes_conflict(world: World) -> Sequence[str]:
    refuse = answering(409, "Conflict")
    for each in world.ours:
        known: set[str] = set()

        async def first(exchange: Exchange, known: set[str] = known) -> Outcome:
            if "/leases" in exchange.path or exchange.path in known:
                return PASS
            known.add(exchange.path)
            return await refuse(exchange)

        each.proxy.rule(first, method="PATCH|POST|PUT", times=None)
    before = _written(world)
    world.lasts(15, 6)
    for each in world.ours:
        each.proxy.clear()
    return [f"{_written(world) - before} writes tried"]


def _written(world: World) -> int:
    return sum(len(each.writes()) for each in world.ours)


def _leaders(world: World) -> Sequence[Candidate]:
    return [each for each in world.reconcilers if each.leads()]


def _failures(candidate: Candidate) -> float:
    """Watches and lists of this process that ended with an error."""
    lines = candidate.replica.metrics().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith("gpures_reflector_failures_total"))
