"""One fault: load, inject, end, wait for recovery, and judge."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from subprocess import SubprocessError
from typing import Final

import httpx

from common.domain import keys
from tests.controlplane.client import ApiError
from tests.controlplane.polling import NotInTimeError, until
from tests.faults.facts import ROLE
from tests.faults.judge import STORED, Violation
from tests.faults.table import Fault
from tests.faults.timing import lasts, load, monotonic, patience, wall, whole_second
from tests.faults.traffic import Sample, Traffic, cancel
from tests.faults.world import World

WARM_UP_S: Final = 1.5
GIVES_UP_S: Final = 120.0
EXISTS: Final = 409
FAR: Final = timedelta(minutes=5)
OURS: Final = re.compile("gpures.dev\"|Policy 'gpures")
"""In a refusal: a webhook or a policy of ours."""
PASSING = (ApiError, httpx.HTTPError)


@dataclass
class Outcome:
    fault: Fault
    held: bool
    recovered_s: float | None
    worst_canary_s: float
    canaries: int
    attacks: int
    load: float
    violations: Sequence[str] = ()
    lost: Sequence[str] = ()
    notes: Sequence[str] = ()
    took_s: float = 0.0


@dataclass
class Case:
    """One run of one fault, while it is going on."""

    world: World
    fault: Fault
    traffic: Traffic
    orphans: frozenset[str]
    wrong: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def run(world: World, fault: Fault) -> Outcome:
    began = monotonic()
    with Traffic(world, f"{fault.id.lower()}-{world.number()}") as traffic:
        case = Case(world, fault, traffic, frozenset(world.auditor.rules.orphans()))
        lasts(WARM_UP_S)
        try:
            assert fault.stage is not None
            case.notes += fault.stage(world)
        except (NotInTimeError, RuntimeError, OSError, SubprocessError, *PASSING) as error:
            case.wrong.append(f"I14: the fault did not go as staged: {error}")
        ended, ended_at = monotonic(), wall()
        case.wrong += [f"a process of ours has ended: {name}" for name in _ended(world)]
        recovered = _recovered(case, ended)
        if recovered is None or case.wrong:
            world.heal(anew=recovered is None)
    _judged(case, ended_at)
    with suppress(*PASSING):
        traffic.clear_up()
    return Outcome(
        fault,
        held=not case.wrong,
        recovered_s=recovered,
        worst_canary_s=traffic.canary.worst_s,
        canaries=len(traffic.canary.samples),
        attacks=len(traffic.attacks.samples),
        load=load(),
        violations=case.wrong,
        lost=list(_lost(case)),
        notes=case.notes,
        took_s=monotonic() - began,
    )


def _ended(world: World) -> Iterator[str]:
    for each in world.ours:
        if not each.replica.child.running:
            yield f"{each.replica.child.name} ({each.replica.child.code}): {each.replica.child.tail(3)}"


# Recovery


def _recovered(case: Case, ended: float) -> float | None:
    """Seconds until a new window opens in time, a new pod comes in at once, and nobody waits beside room."""
    bound, auditor = case.fault.bound_s * patience(), case.world.auditor
    try:
        took = _comes_in(case, ended)
        if auditor.releasable():
            until(lambda: not auditor.releasable(), GIVES_UP_S, "nobody waits beside room")
            took = max(took, monotonic() - ended)
    except NotInTimeError as error:
        case.wrong.append(f"I14: not recovered: {error}; waiting beside room: {list(auditor.releasable())[:5]}")
        return None
    if took > bound:
        case.wrong.append(f"I14: recovered after {took:.1f} s; {bound:.0f} s are allowed at this load")
    return took


def _comes_in(case: Case, ended: float) -> float:
    """A window is booked; one pod waits until it opens, the other one comes afterwards: the longer of both waits."""
    tenant, name = case.world.alice, f"after-{case.traffic.tag}"
    start = whole_second(wall() + timedelta(seconds=1))
    _made(lambda: tenant.book(name, 2, start=start, duration=FAR), "a window can be booked")
    opens = monotonic() + (start - wall()).total_seconds()
    first = _probe(case, name, 1) - max(opens, ended)
    began = monotonic()
    second = _probe(case, name, 2) - began
    _made(lambda: cancel(tenant, name), "cancelled")
    return max(first, second)


def _probe(case: Case, window: str, number: int) -> float:
    """When it was let in."""
    tenant, name = case.world.alice, f"{window}-{number}"
    manifest = tenant.manifest(name, labels={ROLE: "probe"}, annotations={keys.USE_RESERVATION: window})
    _made(lambda: tenant.client.create(manifest), "a pod can be created")
    auditor = case.world.auditor
    return until(lambda: auditor.entered_at(tenant.namespace, name), GIVES_UP_S, f"{name} is let in")


def _made(work: Callable[[], object], what: str) -> None:
    """Tried until it is there; an answer that was lost may have been a success."""

    def done() -> bool:
        try:
            work()
        except ApiError as error:
            if error.code != EXISTS:
                raise
        return True

    until(done, GIVES_UP_S, what, retry_on=PASSING)


# Judgement


def _judged(case: Case, ended_at: datetime) -> None:
    world, fault = case.world, case.fault
    violations = world.auditor.judge()
    case.wrong += [str(violation) for violation in violations if violation.promise in fault.promises]
    outside = [violation for violation in violations if violation.promise not in fault.promises]
    for promise, count in Counter(violation.promise for violation in outside).items():
        example = next(str(violation) for violation in outside if violation.promise == promise)
        case.notes.append(f"not asked of this fault, {count} times: {example}")
    case.notes += [f"{count} times: {note}" for note, count in Counter(world.auditor.rules.notes).items()]
    world.auditor.rules.notes.clear()
    case.wrong += [
        str(Violation("I4", sample.what, 0, sample.at, f"{sample.took_s:.1f} s, {sample.refusal}"))
        for sample in case.traffic.canary.samples
        if sample.refusal and not _excused(fault, sample, ended_at)
    ]
    case.wrong += [
        str(Violation("I5", sample.what, 0, sample.at, "was not refused"))
        for sample in case.traffic.attacks.accepted
        if STORED in fault.promises or "gate off" in sample.what
    ]


def _excused(fault: Fault, sample: Sample, ended_at: datetime) -> bool:
    """While the cluster itself is down its refusals are not ours, unless they name us."""
    return fault.cluster_down and sample.at < ended_at and not OURS.search(sample.refusal)


def _lost(case: Case) -> Iterator[str]:
    traffic = case.traffic
    for tally, what in (
        (traffic.canary, "canaries"),
        (traffic.pods, "creates of GPU pods"),
        (traffic.bookings, "bookings"),
    ):
        count = len(tally.refused) + len(tally.cut)
        if count:
            yield f"{count} of {len(tally.samples)} {what} had to be repeated"
    if traffic.missed:
        yield f"{traffic.missed} pods missed a window of {len(traffic.windows)} that the fault covered"
    orphans = case.world.auditor.rules.orphans()
    units = sum(orphans[token] for token in orphans.keys() - case.orphans)
    if units:
        yield f"{units} units claimed for pods that never came, given back later"
