"""Which wishes one round of confirmation takes, and in which order it judges them."""

from collections import Counter
from collections.abc import Iterable

from common.domain import confirmation
from common.domain.reservation import Phase, Reservation

MOST_NEW = 200
APPLYING = "Applying"


def order(reservation: Reservation) -> tuple[bool, bool, object, str]:
    """Standing promises before new ones, what is given back before what is asked for; then first come first served."""
    granted = reservation.granted
    gives = granted is not None and confirmation.is_shrunk(
        confirmation.wanted_change(reservation.wish, granted), granted
    )
    return (granted is None, not gives, reservation.created, reservation.uid)


def applying(reservation: Reservation) -> bool:
    """Holds a promise, and a change of it is announced."""
    applied = reservation.condition("Applied")
    return applied is not None and applied.reason == APPLYING


def announced(reservation: Reservation) -> bool:
    return reservation.phase is Phase.CONFIRMING or applying(reservation)


def taken(undecided: Iterable[Reservation], most_new: int = MOST_NEW) -> list[Reservation]:
    """What is announced already, all of it, and up to `most_new` more, one of each namespace in turn.

    Whatever is announced keeps units from everybody until it is decided (R8): left out, it would hold up the others for
    ever. Of the rest each namespace has the same share, its own order within, so that nobody waits for the hundreds of
    somebody else.
    """
    rows = sorted(undecided, key=order)
    turns: Counter[str] = Counter()
    new: list[tuple[int, Reservation]] = []
    for row in rows:
        if not announced(row):
            new.append((turns[row.namespace], row))
            turns[row.namespace] += 1
    new.sort(key=lambda entry: entry[0])
    return [row for row in rows if announced(row)] + [row for _, row in new[:most_new]]
