"""Which phase a reservation is due to enter, and when the next one is due."""

from dataclasses import dataclass
from datetime import timedelta

from common.domain.gpu_class import GpuClass
from common.domain.reservation import OPENABLE, TERMINAL, Phase, Reservation
from common.domain.time import Instant, Window

KEEP_WITHOUT_CLASS = timedelta(hours=336)
"""The default of `keepFinished`, for what asked for a class that is gone or never was."""


@dataclass(frozen=True, slots=True)
class PhaseChange:
    """Write `to` while the phase is still `reservation.phase`; a terminal one takes `granted` away in that patch."""

    reservation: Reservation
    to: Phase
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Removal:
    """Delete a finished object whose class keeps it no longer, with its uid as precondition."""

    reservation: Reservation


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be done now, if anything, and the next instant at which this reservation is worth a look."""

    action: PhaseChange | Removal | None = None
    next: Instant | None = None


def plan(reservation: Reservation, gpu_class: GpuClass | None, now: Instant) -> Due:
    if reservation.phase in TERMINAL:
        return _finished(reservation, gpu_class, now)
    if reservation.wish.cancel:
        message = "canceled; pods that run go on without a guarantee"
        return Due(PhaseChange(reservation, Phase.CANCELED, "Canceled", message))
    if reservation.granted is None or reservation.phase not in OPENABLE:
        return Due()
    return _promised(reservation, reservation.granted.window, now)


def _promised(reservation: Reservation, window: Window, now: Instant) -> Due:
    if now >= window.end:
        return Due(PhaseChange(reservation, Phase.ENDED, "Ended", "the window is over"))
    if now < window.start:
        return Due(next=window.start)
    if reservation.phase is Phase.CONFIRMED:
        return Due(PhaseChange(reservation, Phase.ACTIVE, "Open", "the window is open"), window.end)
    return Due(next=window.end)


def changed(reservation: Reservation) -> bool:
    """The spec was changed since it was last judged, while something is promised."""
    return reservation.phase in OPENABLE and reservation.observed_generation != reservation.generation


def _finished(reservation: Reservation, gpu_class: GpuClass | None, now: Instant) -> Due:
    if reservation.finished is None:
        return Due()
    until = reservation.finished + (gpu_class.keep_finished if gpu_class is not None else KEEP_WITHOUT_CLASS)
    if reservation.claims or now < until:
        return Due(next=until if now < until else None)
    return Due(Removal(reservation))
