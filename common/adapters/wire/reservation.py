"""GPUReservations: from bytes to `Reservation`, and the parts of the status that we write."""

from sys import intern
from typing import Annotated

import msgspec

from common.adapters.wire.conditions import conditions_of, encode_conditions
from common.adapters.wire.metadata import ConditionWire, MetaWire, Raw, Time, decoded, malformed, optional_utc, utc
from common.adapters.wire.quantity import duration
from common.domain import keys
from common.domain.errors import MalformedObject
from common.domain.reservation import Granted, Phase, Reservation, ReservationType, Token, Wish
from common.domain.time import Window, format_instant

Count = Annotated[int, msgspec.Meta(ge=0)]


class SelectorWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    match_labels: dict[str, str] | None = None


class WishWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    gpu_class: str
    units: Count = 1
    start: Time | None = None
    end: Time | None = None
    duration: str | None = None
    pods: SelectorWire | None = None
    cancel: bool = False
    type: ReservationType = ReservationType.BOOKING


class GrantedWire(msgspec.Struct, frozen=True, gc=False):
    start: Time
    end: Time
    units: Count


class ReservationStatusWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    observed_generation: int = 0
    phase: Phase = Phase.PENDING
    reason: str = ""
    message: str = ""
    granted: GrantedWire | None = None
    guaranteed_until: Time | None = None
    used: str = ""
    used_by: list[str] | None = None
    waiting_pods: int = 0
    claims: dict[str, Count] | None = None
    fast_path_until: Time | None = None
    created_by: str = ""
    changed_by: str = ""
    finished_at: Time | None = None
    conditions: list[ConditionWire] | None = None


class ReservationWire(msgspec.Struct, frozen=True, gc=False):
    spec: WishWire
    metadata: MetaWire = MetaWire()
    status: ReservationStatusWire = ReservationStatusWire()


class NamedWish(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    gpu_class: str
    cancel: bool = False


class PromisedWire(msgspec.Struct, frozen=True, gc=False):
    """A reservation whose spec cannot be read: what it is for, and what was promised."""

    spec: NamedWish
    metadata: MetaWire = MetaWire()
    status: ReservationStatusWire = ReservationStatusWire()


_reservation = msgspec.json.Decoder(ReservationWire)
_promised = msgspec.json.Decoder(PromisedWire)


def decode_reservation(raw: Raw) -> Reservation:
    """Raises MalformedObject, unless something is promised: a promise holds whatever its spec has become (R4)."""
    try:
        return reservation_of(decoded(_reservation, raw, "GPUReservation"))
    except MalformedObject:
        promised = decoded(_promised, raw, "GPUReservation")
        if promised.status.granted is None:
            raise
        return reservation_of(_as_promised(promised))


def reservation_of(wire: ReservationWire) -> Reservation:
    """As `decode_reservation`, for a struct that stood inside something else."""
    metadata, status = wire.metadata, wire.status
    annotations = metadata.annotations or {}
    try:
        wish, granted = _wish(wire.spec), _granted(status.granted)
    except (MalformedObject, ValueError) as error:
        raise malformed(metadata, "GPUReservation", error) from error
    return Reservation(
        key=metadata.key,
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created,
        generation=metadata.generation,
        wish=wish,
        phase=status.phase,
        observed_generation=status.observed_generation,
        granted=granted,
        guaranteed_until=optional_utc(status.guaranteed_until),
        claims={Token(token): units for token, units in (status.claims or {}).items()},
        used_by=tuple(status.used_by or ()),
        waiting_pods=status.waiting_pods,
        used=status.used,
        reason=status.reason,
        message=status.message,
        fast_path_until=optional_utc(status.fast_path_until),
        conditions=conditions_of(status.conditions),
        created_by=status.created_by,
        changed_by=status.changed_by,
        stamped_created_by=annotations.get(keys.CREATED_BY, ""),
        stamped_changed_by=annotations.get(keys.CHANGED_BY, ""),
        finished=optional_utc(status.finished_at),
    )


def encode_granted(granted: Granted | None) -> dict[str, object] | None:
    """`status.granted`; None takes it away in a merge patch."""
    if granted is None:
        return None
    return {
        "start": format_instant(granted.window.start),
        "end": format_instant(granted.window.end),
        "units": granted.units,
    }


def reservation_status(reservation: Reservation) -> dict[str, object]:
    """The whole status, absent where nothing is known. For new objects: in a patch, write your own fields only (R8)."""
    fields: dict[str, object] = {
        "observedGeneration": reservation.observed_generation,
        "phase": str(reservation.phase),
        "reason": reservation.reason,
        "message": reservation.message,
        "granted": encode_granted(reservation.granted),
        "guaranteedUntil": reservation.guaranteed_until and format_instant(reservation.guaranteed_until),
        "used": reservation.used,
        "usedBy": list(reservation.used_by),
        "waitingPods": reservation.waiting_pods,
        "claims": dict(reservation.claims),
        "fastPathUntil": reservation.fast_path_until and format_instant(reservation.fast_path_until),
        "createdBy": reservation.created_by,
        "changedBy": reservation.changed_by,
        "finishedAt": reservation.finished and format_instant(reservation.finished),
        "conditions": encode_conditions(reservation.conditions),
    }
    return {name: value for name, value in fields.items() if value is not None}


def _wish(spec: WishWire) -> Wish:
    if (spec.end is None) == (spec.duration is None):
        msg = "spec has both an end and a duration" if spec.end else "spec has neither an end nor a duration"
        raise MalformedObject(msg)
    return Wish(
        gpu_class=intern(spec.gpu_class),
        units=spec.units,
        start=optional_utc(spec.start),
        end=optional_utc(spec.end),
        duration=None if spec.duration is None else duration(spec.duration),
        pods=(spec.pods.match_labels if spec.pods else None) or {},
        cancel=spec.cancel,
        type=spec.type,
    )


def _granted(wire: GrantedWire | None) -> Granted | None:
    return None if wire is None else Granted(Window(utc(wire.start), utc(wire.end)), wire.units)


def _as_promised(wire: PromisedWire) -> ReservationWire:
    """The promise stands in for the wish, and the generation for the one that was judged: nothing has changed."""
    granted = wire.status.granted
    wish = WishWire(
        gpu_class=wire.spec.gpu_class,
        units=granted.units if granted else 1,
        start=granted.start if granted else None,
        end=granted.end if granted else None,
        cancel=wire.spec.cancel,
    )
    metadata = msgspec.structs.replace(wire.metadata, generation=wire.status.observed_generation)
    return ReservationWire(wish, metadata, wire.status)
