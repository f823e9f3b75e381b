"""Where one pod goes: the single decision that the webhook at CREATE and the reconciler later both call.

Order (peer scenario 1-6 and the issue): open with room before opening soon; big enough before sooner; earliest end
first among equals; a pod's named reservation or none.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from common.domain import keys, texts
from common.domain.gpu_class import GpuClass, Mode, WithoutReservation
from common.domain.reasons import Hold, Reason
from common.domain.reservation import MAX_CLAIMS, OPENABLE, TERMINAL, Granted, Phase, Reservation
from common.domain.time import Instant


@dataclass(frozen=True, slots=True)
class Ask:
    """What one pod wants; `units` is counted in units of its class."""

    namespace: str
    class_label: str
    units: int
    labels: Mapping[str, str]
    use_reservation: str = ""
    foreign_gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pass:
    """Not ours to hold: the pod goes on unchanged; the reason (UnknownGpuClass, NoGpuRequest) is told, if any."""

    told: Hold | None = None


@dataclass(frozen=True, slots=True)
class Open:
    """The pod may claim its units in this reservation, whose window is open with room for it."""

    reservation: Reservation
    granted: Granted


Route = Pass | Open | Hold

_ENDINGS = {Phase.DENIED: "was denied", Phase.CANCELED: "is canceled"}


def concerns(gpu_class: GpuClass | None, ask: Ask, known: Iterable[str]) -> Pass | None:
    """Pass for what is left alone whatever is booked; None for a pod that needs a reservation's answer."""
    if gpu_class is None:
        classes = list(known)
        if not classes:
            return Pass()
        return Pass(Hold(Reason.UNKNOWN_GPU_CLASS, texts.unknown_class(ask.class_label, classes)))
    if ask.units < 1:
        resources = " or ".join(sorted(gpu_class.unit.resources))
        sentence = f"the pod has the label {keys.CLASS_LABEL}={ask.class_label} but asks for no {resources}"
        return Pass(Hold(Reason.NO_GPU_REQUEST, f"{sentence}; set it in resources.limits of a container"))
    if gpu_class.mode_in(ask.namespace) is Mode.OBSERVE:
        return Pass()
    return None


def route(
    ask: Ask,
    gpu_class: GpuClass,
    mine: Sequence[Reservation],
    now: Instant,
    free: int | None,
    display: texts.Display,
    largest_block: int | None = None,
) -> Open | Hold:
    """Decide for a pod of a known class. `mine` are the reservations of the pod's namespace, of every class.

    `free` is what the class's nodes can still run and `largest_block` the most on one node; None while nobody has
    counted (then nodes do not hold the pod back).
    """
    usable = [r for r in mine if r.wish.gpu_class == gpu_class.name and _selects(r, ask)]
    if ask.use_reservation:
        usable = [r for r in usable if r.name == ask.use_reservation]
        if not usable:
            return _not_found(ask, gpu_class, mine)
    if ask.foreign_gates:
        gates = texts.names([texts.clip(gate, 64) for gate in ask.foreign_gates])
        return Hold(Reason.OTHER_GATE, f"another scheduling gate holds this pod first: {gates}")
    open_ = _open_with_room(usable, ask.units, now)
    if open_ is None:
        return _hold(ask, gpu_class, usable, mine, now, display)
    if free is not None and free < ask.units:
        sentence = (
            f"{open_.reservation.name} is open, but no {ask.class_label} units are free on ready nodes; "
            "starts when units are back"
            if free < 1
            else f"{open_.reservation.name} is open, but only {free} {ask.class_label} units are free on ready nodes "
            f"and the pod asks {ask.units}; starts when units are back"
        )
        return Hold(Reason.WAITING_FOR_UNITS, sentence, reservation=open_.reservation.name)
    if largest_block is not None and largest_block < ask.units:
        sentence = (
            f"{open_.reservation.name} is open, but no ready node has {ask.units} {ask.class_label} units free; "
            "starts when one has"
        )
        return Hold(Reason.WAITING_FOR_UNITS, sentence, reservation=open_.reservation.name)
    return open_


def held_in(gpu_class: GpuClass, namespace: str) -> bool:
    """Whether a pod without an open reservation is kept back, rather than let go without the toleration."""
    return gpu_class.mode_in(namespace) is Mode.ENFORCE and gpu_class.without_reservation is WithoutReservation.HOLD


def _selects(reservation: Reservation, ask: Ask) -> bool:
    return all(ask.labels.get(key) == value for key, value in reservation.wish.pods.items())


def _open_with_room(usable: Iterable[Reservation], units: int, now: Instant) -> Open | None:
    fitting = [
        Open(r, r.granted)
        for r in usable
        if r.granted is not None
        and r.granted.window.contains(now)
        and r.room >= units
        and len(r.claims) < MAX_CLAIMS
        and not r.wish.cancel
    ]
    return min(fitting, key=lambda o: (o.granted.window.end, o.reservation.name), default=None)


def _hold(
    ask: Ask,
    gpu_class: GpuClass,
    usable: Sequence[Reservation],
    mine: Sequence[Reservation],
    now: Instant,
    display: texts.Display,
) -> Hold:
    live = [
        (r, r.granted)
        for r in usable
        if r.granted is not None and r.phase in OPENABLE and now < r.granted.window.end and not r.wish.cancel
    ]
    big_enough = sorted(
        ((r, g) for r, g in live if g.units >= ask.units),
        key=lambda rg: (rg[1].window.start, rg[1].window.end, rg[0].name),
    )
    if big_enough:
        return _best(ask, big_enough, now, display)
    pending = sorted(
        (r for r in usable if r.phase in (Phase.PENDING, Phase.CONFIRMING) and not r.wish.cancel),
        key=lambda r: (r.wish.units < ask.units, r.name),
    )
    if pending and not (live and pending[0].wish.units < ask.units):
        name = pending[0].name
        sentence = f"reservation {name} is not confirmed yet; the pod starts by itself once it is"
        return Hold(Reason.RESERVATION_PENDING, sentence, reservation=name)
    if live:
        reservation, granted = min(live, key=lambda rg: (-rg[1].units, rg[1].window.start, rg[0].name))
        sentence = (
            f"the pod asks {ask.units} {ask.class_label} and {reservation.name} holds {granted.units}; "
            "ask for less, or book more units"
        )
        return Hold(Reason.RESERVATION_TOO_SMALL, sentence, reservation=reservation.name)
    if ask.use_reservation:
        return _not_found(ask, gpu_class, mine)
    near = [
        r
        for r in mine
        if r.phase not in TERMINAL
        and r.wish.gpu_class != gpu_class.name
        and not r.wish.cancel
        and (r.granted is None or now < r.granted.window.end)
    ]
    return Hold(Reason.NO_RESERVATION, texts.no_reservation(ask.namespace, ask.class_label, near))


def _best(ask: Ask, big_enough: Sequence[tuple[Reservation, Granted]], now: Instant, display: texts.Display) -> Hold:
    """The first that opens, or has opened and has no room; `until` is when one of them opens or this one closes."""
    reservation, granted = big_enough[0]
    if now < granted.window.start:
        sentence = texts.opens(reservation, ask.class_label, granted.window, granted.units, display)
        return Hold(Reason.WAITING_FOR_RESERVATION, sentence, granted.window.start, reservation.name)
    openings = [g.window.start for _, g in big_enough if now < g.window.start]
    until = min([granted.window.end, *openings])
    if len(reservation.claims) >= MAX_CLAIMS:
        sentence = f"{reservation.name} already runs {MAX_CLAIMS} pods, the most one reservation can"
        return Hold(Reason.RESERVATION_FRAGMENTED, sentence, until, reservation.name)
    sentence = texts.full(reservation, ask.class_label, granted, ask.units, display)
    return Hold(Reason.RESERVATION_FULL, sentence, until, reservation.name)


def _not_found(ask: Ask, gpu_class: GpuClass, mine: Iterable[Reservation]) -> Hold:
    named = texts.quoted(ask.use_reservation)
    other = next((r for r in mine if r.name == ask.use_reservation), None)
    if other is None:
        why = f"namespace {ask.namespace} has no reservation {named}"
    elif other.wish.gpu_class != gpu_class.name:
        why = f"reservation {named} is for {other.wish.gpu_class}, the pod asks {ask.class_label}"
    elif not _selects(other, ask):
        why = f"reservation {named} selects other pods"
    else:
        why = f"reservation {named} {_ENDINGS.get(other.phase, 'is over')}"
    return Hold(Reason.RESERVATION_NOT_FOUND, f"{why}; the pod waits for exactly that one ({keys.USE_RESERVATION})")
