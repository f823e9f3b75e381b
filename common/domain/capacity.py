"""Units over time: the one invariant that admission's early answer and the leader's confirmation share.

Judged against declared units (design section 3, "Capacity"), never against which nodes are ready today.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from common.domain.reservation import OPENABLE, Reservation
from common.domain.time import Instant, Window


@dataclass(frozen=True, slots=True)
class Commitment:
    """Units that are kept from others for a window."""

    window: Window
    units: int


@dataclass(frozen=True, slots=True)
class Budget:
    """Units, and what is kept of them."""

    units: int
    kept: Sequence[Commitment]


@dataclass(frozen=True, slots=True)
class Low:
    """The fewest units free within a window, and since when."""

    free: int
    since: Instant


def commitments(reservations: Iterable[Reservation]) -> list[Commitment]:
    """What confirmed reservations keep: max(granted, claimed), for their granted window.

    A wish to cancel frees nothing before the phase says so: until then a claim may still land (R1).
    """
    return [
        Commitment(r.granted.window, r.occupied) for r in reservations if r.granted is not None and r.phase in OPENABLE
    ]


def committed_at(kept: Iterable[Commitment], instant: Instant) -> int:
    return sum(c.units for c in kept if c.window.contains(instant))


def lowest(bookable: int, kept: Iterable[Commitment], window: Window) -> Low:
    """First instant of the window at which the fewest units are free."""
    steps = _steps(bookable, kept, window.start)
    low = Low(steps[0][1], window.start)
    for instant, free in steps:
        if instant < window.end and free < low.free:
            low = Low(free, max(instant, window.start))
    return low


def first_slot(
    bookable: int,
    kept: Sequence[Commitment],
    units: int,
    duration: timedelta,
    not_before: Instant,
    also: Sequence[Budget] = (),
) -> Instant | None:
    """First instant from `not_before` on at which `units` are free for `duration`; None when there never are.

    `also` are further budgets that must have them free at the same time.
    """
    budgets = [Budget(bookable, kept), *also]
    if any(units > budget.units for budget in budgets):
        return None
    since: Instant | None = None
    for instant, free in _least(budgets, not_before):
        if free < units:
            if since is not None and instant - since >= duration:
                return since
            since = None
        elif since is None:
            since = max(instant, not_before)
    return since


def last_end(bookable: int, kept: Iterable[Commitment], units: int, start: Instant) -> Instant | None:
    """How far from `start` on `units` stay free; None = without end, `start` itself = not at all."""
    for instant, free in _steps(bookable, kept, start):
        if free < units:
            return max(instant, start)
    return None


def _least(budgets: Sequence[Budget], since: Instant) -> list[tuple[Instant, int]]:
    """As `_steps`, of whichever budget has the fewest units free; one sweep over all of them."""
    changes = sorted(
        (instant, number, free)
        for number, budget in enumerate(budgets)
        for instant, free in _steps(budget.units, budget.kept, since)
    )
    free_of = [budget.units for budget in budgets]
    steps: dict[Instant, int] = {}
    for instant, number, free in changes:
        free_of[number] = free
        steps[instant] = min(free_of)
    return list(steps.items())


def _steps(bookable: int, kept: Iterable[Commitment], since: Instant) -> list[tuple[Instant, int]]:
    """`(instant, free from then on)`, the first at `since`; only instants at which something changes."""
    changes: dict[Instant, int] = {since: 0}
    for commitment in kept:
        if commitment.window.end <= since or commitment.window.start == commitment.window.end:
            continue
        start = max(commitment.window.start, since)
        changes[start] = changes.get(start, 0) - commitment.units
        changes[commitment.window.end] = changes.get(commitment.window.end, 0) + commitment.units
    free = bookable
    steps = []
    for instant in sorted(changes):
        free += changes[instant]
        steps.append((instant, free))
    return steps
