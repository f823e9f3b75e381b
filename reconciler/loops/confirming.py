"""A round of confirmation for one class: announce, read the counter, look, compare and swap, write (R8).

However many leaders think that they lead, a promise is written only by one who announced it, then saw everything that
was promised or announced, then won the counter, and whose announcement nobody has touched since.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import structlog

from common.adapters.wire.conditions import encode_conditions
from common.domain import confirmation, rounds, windows
from common.domain.confirmation import Verdict
from common.domain.errors import ApiError, Conflict, NotFound, Refused
from common.domain.gpu_class import GpuClass
from common.domain.reservation import OPENABLE, Condition, Granted, Phase, Reservation
from common.domain.time import Window
from reconciler.loops import verdicts
from reconciler.queue import Kind, Work
from reconciler.together import all_of
from reconciler.world import World

log = structlog.get_logger(__name__)

IN_FLIGHT = 8
AGAIN_AFTER = timedelta(seconds=1)
UNWRITABLE_AGAIN = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Decided:
    reservation: Reservation
    verdict: Verdict


def undecided(reservation: Reservation) -> bool:
    if reservation.wish.cancel:
        return False
    if reservation.phase in (Phase.PENDING, Phase.CONFIRMING):
        return True
    return windows.changed(reservation) and not confirmation.asks_what_it_has(reservation)


async def restamp(world: World) -> int:
    """Before a new leader does anything else: touch whatever another one announced, so that its last write conflicts.

    Reads a quorum list, because the informers may not have seen the last announcement yet.
    """
    announced = [r for r in await world.writes.list_live() if rounds.announced(r)]
    await all_of(_announce(world, r) for r in announced)
    return len(announced)


async def confirm(world: World, gpu_class: GpuClass) -> None:
    """One round; raises Conflict when another round came in between, and the queue comes back to it."""
    wishes = [r for r in world.state.reservations_of(gpu_class.name) if undecided(r)]
    rows = rounds.taken(wishes)
    if not rows:
        return
    if not world.fresh():
        world.agenda.put(Work(Kind.CLASS, "", gpu_class.name), world.now + AGAIN_AFTER)
        return
    before = world.in_vain.get(gpu_class.name)
    if before is not None and before <= world.now < before + AGAIN_AFTER:
        world.agenda.put(Work(Kind.CLASS, "", gpu_class.name), before + AGAIN_AFTER)
        return
    slots = asyncio.Semaphore(IN_FLIGHT)

    async def announce(row: Reservation) -> Reservation | None:
        async with slots:
            return await _announce(world, row)

    announced = [r for r in await all_of(map(announce, rows)) if r is not None]
    if not announced:
        return
    current = await world.writes.read_class(gpu_class.name)
    listed = {r.uid: r for r in await world.writes.list_class(gpu_class.name)}
    mine = [r for r in announced if r.uid in listed and listed[r.uid].version == r.version]
    decided = _decide(world, current, mine, list(listed.values()))
    if not decided:
        return
    await _swap(world, current)
    world.rounds[gpu_class.name] += 1

    async def write(one: Decided) -> bool:
        async with slots:
            return await _write(world, current, one)

    if not any(await all_of(map(write, decided))):
        world.in_vain[gpu_class.name] = world.now
    elif len(rows) < len(wishes):
        world.touch(Work(Kind.CLASS, "", gpu_class.name))


async def acknowledge(world: World, row: Reservation) -> None:
    """A change that alters nothing of what is promised: nothing to judge, so it neither waits nor costs a round."""
    gpu_class = world.state.classes.get(row.wish.gpu_class)
    if gpu_class is None or row.granted is None:
        return
    verdict = confirmation.judge_change(row, row.granted, gpu_class, (), 0, world.now, world.display)
    await _write(world, gpu_class, Decided(row, verdict))


async def deny_unknown(world: World, class_name: str) -> None:
    """No class of that name, by a read of its own: the watch of classes may be behind, and the answer is final."""
    try:
        await world.writes.read_class(class_name)
    except NotFound:
        log.info("class.unknown", gpu_class=class_name)
    else:
        return
    for row in world.state.reservations_of(class_name):
        if row.phase in (Phase.PENDING, Phase.CONFIRMING) and not row.wish.cancel:
            verdict = confirmation.unknown_class(class_name, world.state.classes)
            try:
                await world.writes.status_at(row, verdicts.denied(world, row, verdict))
            except (Conflict, NotFound) as miss:
                log.info("confirm.missed", reservation=str(row.key), why=str(miss))


async def explain_conflict(world: World, gpu_class: GpuClass, decides: GpuClass) -> None:
    """An older class has the same nodes: what asks for this one waits, and says for what."""
    message = f"class {gpu_class.name} has the same label value as {decides.name}, which is older and decides"
    for row in world.state.reservations_of(gpu_class.name):
        if row.phase is Phase.PENDING and not row.wish.cancel and row.message != message:
            try:
                await world.writes.status_at(row, {"reason": "Conflict", "message": message})
            except (Conflict, NotFound) as miss:
                log.info("confirm.missed", reservation=str(row.key), why=str(miss))


def _decide(
    world: World, gpu_class: GpuClass, mine: Sequence[Reservation], listed: Sequence[Reservation]
) -> list[Decided]:
    """In stable order, each one seeing what those before it were given.

    `firm` is the most that may stand while the writes of this round are under way: what shrinks, or is to be cancelled,
    keeps its units until that is stored. `hoped` is what stands once all of it is: nobody is denied for less.
    """
    bookable = world.counts.of(gpu_class).units.bookable
    own = {r.uid for r in mine}
    firm = {r.uid: r for r in listed if r.granted is not None and r.phase in OPENABLE}
    hoped = {uid: r for uid, r in firm.items() if not r.wish.cancel}
    strangers = [_as_promised(r, world) for r in listed if r.phase is Phase.CONFIRMING and r.uid not in own]
    strangers += [
        _as_asked(r, r.granted) for r in listed if r.granted is not None and rounds.applying(r) and r.uid not in own
    ]
    decided: list[Decided] = []
    for row in sorted(mine, key=rounds.order):
        others, hoped_others = ([r for r in rows.values() if r.uid != row.uid] for rows in (firm, hoped))
        verdict = _judge(world, row, gpu_class, _with_strangers(others, strangers), bookable)
        if verdict.granted is None and _judge(world, row, gpu_class, hoped_others, bookable).granted is not None:
            # What is under way may yet go either way: no final denial on its account.
            world.agenda.put(Work(Kind.CLASS, "", gpu_class.name), world.now + AGAIN_AFTER)
            continue
        decided.append(Decided(row, verdict))
        if verdict.granted is not None:
            given = hoped[row.uid] = replace(row, granted=verdict.granted, phase=Phase.CONFIRMED)
            firm[row.uid] = (
                given if row.granted is None else replace(given, granted=_either(row.granted, verdict.granted))
            )
    return decided


def _with_strangers(others: Sequence[Reservation], strangers: Sequence[Reservation]) -> list[Reservation]:
    announced = {r.uid for r in strangers}
    return [r for r in others if r.uid not in announced] + list(strangers)


def _judge(
    world: World, row: Reservation, gpu_class: GpuClass, others: Sequence[Reservation], bookable: int
) -> Verdict:
    if row.granted is not None:
        return confirmation.judge_change(row, row.granted, gpu_class, others, bookable, world.now, world.display)
    return confirmation.judge(row, gpu_class, others, bookable, world.now, world.display)


def _as_promised(reservation: Reservation, world: World) -> Reservation:
    """What another leader has announced, as if it were granted."""
    wish, start = reservation.wish, max(reservation.wish.start or world.now, world.now)
    window = wish.window_at(start) if wish.end is None or wish.end > start else Window(start, start)
    return replace(reservation, phase=Phase.CONFIRMED, granted=Granted(window, wish.units))


def _as_asked(reservation: Reservation, granted: Granted) -> Reservation:
    """A change that another leader has announced: it may end up with the old promise or the new one, so both."""
    return replace(reservation, granted=_either(granted, confirmation.wanted_change(reservation.wish, granted)))


def _either(one: Granted, other: Granted) -> Granted:
    """Enough for whichever of the two comes to stand."""
    window = Window(min(one.window.start, other.window.start), max(one.window.end, other.window.end))
    return Granted(window, max(one.units, other.units))


async def _announce(world: World, row: Reservation) -> Reservation | None:
    """None when somebody wrote the row meanwhile; it will be looked at again."""
    stamp = f"{world.stamp()}, round {world.rounds[row.wish.gpu_class]}"
    if row.phase in OPENABLE:
        applied = Condition("Applied", "Unknown", rounds.APPLYING, stamp, world.now, row.generation)
        before = row.condition("Applied")
        stands = before is not None and (before.message, before.observed_generation) == (stamp, row.generation)
        status: dict[str, Any] = {"conditions": encode_conditions(verdicts.with_condition(row, applied))}
    else:
        stands = row.phase is Phase.CONFIRMING and row.message == stamp
        status = {"phase": str(Phase.CONFIRMING), "reason": str(Phase.CONFIRMING), "message": stamp}
    if stands:
        return row
    try:
        return await world.writes.status_at(row, status)
    except (Conflict, NotFound) as miss:
        log.info("confirm.missed", reservation=str(row.key), why=str(miss))
    except ApiError as error:
        # One row that cannot be written (its object may be as large as etcd takes) is no reason to leave the others.
        log.warning("confirm.unwritable", reservation=str(row.key), why=str(error))
        world.agenda.put(Work(Kind.CLASS, "", row.wish.gpu_class), world.now + UNWRITABLE_AGAIN)
    return None


async def _swap(world: World, gpu_class: GpuClass) -> None:
    """G → g+1; a miss means that another round decided in between, and this one knows too little."""
    seen, path = gpu_class.confirmations, "/status/confirmations"
    operations = [{"op": "test", "path": path, "value": seen}, {"op": "replace", "path": path, "value": seen + 1}]
    try:
        await world.writes.class_status(gpu_class, operations)
    except Refused as miss:
        raise Conflict(miss.status, f"another round of {gpu_class.name} came in between") from miss


async def _write(world: World, gpu_class: GpuClass, one: Decided) -> bool:
    """False where it could not be stored: it is looked at again, for nothing may ever change that tells of it.

    What somebody else wrote meanwhile calls for the next look itself.
    """
    row, verdict = one.reservation, one.verdict
    if row.granted is not None:
        status = verdicts.applied(world, row, verdict)
    elif verdict.granted is None:
        status = verdicts.denied(world, row, verdict)
    else:
        status = verdicts.confirmed(world, row, verdict, verdict.granted)
    try:
        await world.writes.status_at(row, status)
    except (Conflict, NotFound) as miss:
        log.info("confirm.missed", reservation=str(row.key), why=str(miss))
        return True
    except ApiError as error:
        log.warning("confirm.unwritable", reservation=str(row.key), why=str(error))
        pause = UNWRITABLE_AGAIN if isinstance(error, Refused) else AGAIN_AFTER
        world.agenda.put(Work(Kind.RESERVATION, *row.key), world.now + pause)
        return False
    log.info("reservation.judged", reservation=str(row.key), gpu_class=gpu_class.name, reason=str(verdict.reason))
    if row.granted is not None and verdict.granted != row.granted:
        verdicts.tell_change(world, gpu_class, row, verdict)
    return True
