"""Whether a reservation fits: limits first, then units over time. The same answer at dry run and at confirmation."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from common.domain import capacity, texts
from common.domain.gpu_class import GpuClass
from common.domain.reservation import TERMINAL, Granted, Reservation, Wish
from common.domain.time import Instant, Window, after

START_TOLERANCE = timedelta(minutes=5)
_LONGEST_OUTAGE = timedelta(days=1)


class Judgement(StrEnum):
    """Reasons of the condition Confirmed."""

    FITS = "Fits"
    NO_CAPACITY = "NoCapacity"
    OVER_LIMIT = "OverLimit"
    NOT_ALLOWED = "NotAllowed"
    UNKNOWN_GPU_CLASS = "UnknownGpuClass"
    START_IN_PAST = "StartInPast"
    NO_NODE_FITS = "NoNodeFits"


@dataclass(frozen=True, slots=True)
class Verdict:
    """`granted` is the promise to write, None when it does not fit; `message` is for people."""

    reason: Judgement
    message: str
    granted: Granted | None = None


def unknown_class(asked: str, known: Iterable[str]) -> Verdict:
    return Verdict(Judgement.UNKNOWN_GPU_CLASS, texts.unknown_class(asked, known).split(" Fix ")[0].rstrip("."))


def judge(
    reservation: Reservation,
    gpu_class: GpuClass,
    others: Sequence[Reservation],
    bookable: int,
    now: Instant,
    display: texts.Display,
) -> Verdict:
    """Judge a wish that nothing was promised for yet. `others` are the class's other reservations."""
    wish = reservation.wish
    start = wish.start.replace(microsecond=0) if wish.start is not None else None
    if start is None:
        start = now.replace(microsecond=0)
    elif start < _asked_at(reservation, now) - START_TOLERANCE:
        message = f"start {display.instant(start)} is in the past; leave start out to begin at once"
        return Verdict(Judgement.START_IN_PAST, message)
    elif start < now:
        start = now.replace(microsecond=0)
    if wish.end is not None and wish.end.replace(microsecond=0) <= start:
        return Verdict(Judgement.START_IN_PAST, f"end {display.instant(wish.end)} is not after the start")
    window = wish.window_at(start)
    own = [r for r in others if r.namespace == reservation.namespace]
    refusal = over_limit(reservation.namespace, wish, window, gpu_class, others, now, display)
    refusal = refusal or _one_too_many(reservation.namespace, gpu_class, own)
    if refusal is not None:
        return refusal
    return _fit(Granted(window, wish.units), gpu_class, others, own, bookable, display)


def over_limit(
    namespace: str,
    wish: Wish,
    window: Window,
    gpu_class: GpuClass,
    others: Iterable[Reservation],
    now: Instant,
    display: texts.Display,
) -> Verdict | None:
    """The first limit of the class that the wish breaks, with its value; None when it keeps them all."""
    limits = gpu_class.limits
    if limits.namespaces and namespace not in limits.namespaces:
        return Verdict(Judgement.NOT_ALLOWED, f"namespace {namespace} may not reserve {gpu_class.name}")
    if limits.max_duration is not None and window.duration > limits.max_duration:
        return _over(f"{texts.span(window.duration)} asked", f"maxDuration is {texts.span(limits.max_duration)}")
    if limits.max_ahead is not None and window.start - now > limits.max_ahead:
        latest = display.instant((now + limits.max_ahead).replace(microsecond=0, second=0))
        return _over(
            f"start {display.instant(window.start)} asked",
            f"maxAhead is {texts.span(limits.max_ahead)}: the latest start now is {latest}",
        )
    if limits.max_units_per_reservation is not None and wish.units > limits.max_units_per_reservation:
        return _over(f"{wish.units} units asked", f"maxUnitsPerReservation is {limits.max_units_per_reservation}")
    if limits.max_units_per_namespace is not None:
        own = capacity.commitments(r for r in others if r.namespace == namespace)
        allowed = limits.max_units_per_namespace
        low = capacity.lowest(allowed, own, window)
        if low.free < wish.units:
            held = f"namespace {namespace} holds {allowed - low.free} from {display.instant(low.since)}"
            return _over(f"{wish.units} units asked and {held}", f"maxUnitsPerNamespace is {allowed}")
    return None


def judge_change(
    reservation: Reservation,
    granted: Granted,
    gpu_class: GpuClass,
    others: Sequence[Reservation],
    bookable: int,
    now: Instant,
    display: texts.Display,
) -> Verdict:
    """Judge a changed wish against a standing promise: what shrinks always fits, what grows must fit anew."""
    wanted = wanted_change(reservation.wish, granted)
    if is_shrunk(wanted, granted):
        return Verdict(Judgement.FITS, _yours(wanted, gpu_class, display), wanted)
    refusal = over_limit(reservation.namespace, reservation.wish, wanted.window, gpu_class, others, now, display)
    before = f"yours until {display.instant(granted.window.end, same_day_as=granted.window.start)} as before"
    if refusal is not None:
        return Verdict(refusal.reason, f"not changed: {refusal.message}; {before}")
    # Only what grows is judged: a class that lost nodes since takes nothing from what was promised.
    start = wanted.window.start
    grows_from = start if wanted.units > granted.units else max(start, granted.window.end)
    later = Window(max(now, grows_from), max(now, grows_from, wanted.window.end))
    kept = capacity.commitments(others)
    low = capacity.lowest(bookable, kept, later)
    # Pods that run keep their units also in what is added, whatever the new number says.
    if low.free >= max(wanted.units, reservation.claimed):
        return Verdict(Judgement.FITS, _yours(wanted, gpu_class, display), wanted)
    free = (
        f"{max(0, low.free)} {gpu_class.name} free from {display.instant(low.since, same_day_as=granted.window.start)}"
    )
    if wanted.units > granted.units:
        units = f"not changed to {wanted.units} units: {free}; {granted.units} \N{MULTIPLICATION SIGN} {gpu_class.name}"
        return Verdict(Judgement.NO_CAPACITY, f"{units} {before}")
    longest = capacity.last_end(bookable, kept, wanted.units, later.start) or wanted.window.end
    end = display.clock(wanted.window.end, granted.window)
    longest_end = display.clock(max(longest, granted.window.end), granted.window)
    return Verdict(
        Judgement.NO_CAPACITY, f"not extended to {end}: {free}; longest possible end {longest_end}; {before}"
    )


def wanted_change(wish: Wish, granted: Granted) -> Granted:
    """The promise that the changed spec asks for; a start that was left out stays where it was promised."""
    start = granted.window.start
    if wish.start is not None and wish.start.replace(microsecond=0) > start:
        start = wish.start.replace(microsecond=0)
    end = wish.end.replace(microsecond=0) if wish.end is not None else after(start, wish.duration or timedelta())
    return Granted(Window(start, max(start, end)), wish.units)


def asks_what_it_has(reservation: Reservation) -> bool:
    """The spec asks for what is promised: whatever else was changed in it (a note, a selector) is nothing to judge."""
    granted = reservation.granted
    return granted is not None and wanted_change(reservation.wish, granted) == granted


def is_shrunk(wanted: Granted, granted: Granted) -> bool:
    """Asks for nothing that is not promised already."""
    return (
        wanted.units <= granted.units
        and wanted.window.start >= granted.window.start
        and wanted.window.end <= granted.window.end
    )


def bookable_units(gpu_class: GpuClass, physical: int, unreserved: int) -> int:
    """What may be promised from now on."""
    return max(0, physical - gpu_class.spare - unreserved)


def _fit(
    granted: Granted,
    gpu_class: GpuClass,
    others: Iterable[Reservation],
    own: Iterable[Reservation],
    bookable: int,
    display: texts.Display,
) -> Verdict:
    window, units = granted.window, granted.units
    kept = capacity.commitments(others)
    low = capacity.lowest(bookable, kept, window)
    if low.free >= units:
        return Verdict(Judgement.FITS, _yours(granted, gpu_class, display), granted)
    asked = f"{gpu_class.name}: {units} unit{'s' if units > 1 else ''} asked {display.window(window)}"
    if bookable < 1:
        return Verdict(Judgement.NO_NODE_FITS, f"{asked}, the class has no units to book")
    slot = _first_slot(granted, gpu_class, kept, capacity.commitments(own), bookable)
    if slot is None:
        return Verdict(Judgement.NO_CAPACITY, f"{asked}, the class has {bookable} to book in all")
    first = (
        f"first slot for {units} unit{'s' if units > 1 else ''} \N{MULTIPLICATION SIGN} {texts.span(window.duration)}"
    )
    free = f"only {max(0, low.free)} free from {display.clock(low.since, window)}"
    return Verdict(Judgement.NO_CAPACITY, f"{asked}, {free}; {first}: {display.instant(slot)}")


def _first_slot(
    granted: Granted,
    gpu_class: GpuClass,
    kept: Sequence[capacity.Commitment],
    own: Sequence[capacity.Commitment],
    bookable: int,
) -> Instant | None:
    """The first instant at which neither the class nor what the namespace may hold at once stands against it."""
    window, units, limit = granted.window, granted.units, gpu_class.limits.max_units_per_namespace
    also = [capacity.Budget(limit, own)] if limit is not None else []
    return capacity.first_slot(bookable, kept, units, window.duration, window.start, also)


def _one_too_many(namespace: str, gpu_class: GpuClass, own: Iterable[Reservation]) -> Verdict | None:
    """`own` are those that come before this one: stored before it for the webhook, judged before it for the leader."""
    most = gpu_class.limits.max_reservations_per_namespace
    live = sum(1 for r in own if r.phase not in TERMINAL)
    if most is None or live < most:
        return None
    has = f"namespace {namespace} has {live} live {gpu_class.name} reservation{'s' if live > 1 else ''}"
    return _over(has, f"maxReservationsPerNamespace is {most}")


def _yours(granted: Granted, gpu_class: GpuClass, display: texts.Display) -> str:
    return f"{granted.units} \N{MULTIPLICATION SIGN} {gpu_class.name}, {display.window(granted.window)}"


def _over(asked: str, limit: str) -> Verdict:
    return Verdict(Judgement.OVER_LIMIT, f"{asked}, {limit}")


def _asked_at(reservation: Reservation, now: Instant) -> Instant:
    """When it was asked: nobody is denied because we were down. A wish that is not stored yet is asked now."""
    return min(reservation.created, now) if reservation.created > now - _LONGEST_OUTAGE else now
