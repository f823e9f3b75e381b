"""GPUClasses: from bytes to `GpuClass`, and the status that the reconciler writes."""

from collections.abc import Iterable
from datetime import timedelta
from typing import TypeVar

import msgspec

from common.adapters.wire.conditions import conditions_of, encode_conditions
from common.adapters.wire.metadata import ConditionWire, MetaWire, Raw, decoded, malformed
from common.adapters.wire.quantity import Quantity, duration, quantities
from common.domain.errors import MalformedObject
from common.domain.gpu_class import ClassUnits, GpuClass, Limits, Mode, OnCancel, Unit, WithoutReservation
from common.domain.reservation import Condition

CONFLICT = "Conflict"
D = TypeVar("D")


class ModeForWire(msgspec.Struct, frozen=True, gc=False):
    namespaces: list[str]
    mode: Mode


class DefaultForWire(msgspec.Struct, frozen=True, gc=False):
    namespaces: list[str]


class UnitWire(msgspec.Struct, frozen=True, gc=False):
    name: str = "GPU"
    resources: dict[str, Quantity] | None = None


class LimitsWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    max_duration: str | None = None
    max_ahead: str | None = None
    max_units_per_reservation: int | None = None
    max_units_per_namespace: int | None = None
    max_reservations_per_namespace: int | None = None
    namespaces: list[str] | None = None


class ClassSpecWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    label_value: str | None = None
    display_name: str = ""
    mode: Mode = Mode.ENFORCE
    mode_for: list[ModeForWire] | None = None
    default_for: DefaultForWire | None = None
    without_reservation: WithoutReservation = WithoutReservation.HOLD
    unit: UnitWire | None = None
    spare: int = 0
    limits: LimitsWire | None = None
    on_cancel: OnCancel = OnCancel.LAZY
    keep_finished: str | None = None


class UnitsWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    physical: int = 0
    schedulable: int = 0
    unreserved: int = 0
    spare: int = 0
    bookable: int = 0
    reserved: int = 0
    claimed: int = 0
    free: int = 0
    largest_block: int = 0


class ClassStatusWire(msgspec.Struct, frozen=True, gc=False):
    units: UnitsWire | None = None
    confirmations: int = 0
    conditions: list[ConditionWire] | None = None


class ClassWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire = MetaWire()
    spec: ClassSpecWire = ClassSpecWire()
    status: ClassStatusWire = ClassStatusWire()


_class = msgspec.json.Decoder(ClassWire)
_DEFAULT_LIMITS = Limits()
_DEFAULT_UNIT = Unit()
_KEEP_FINISHED = timedelta(hours=336)


def decode_class(raw: Raw) -> GpuClass:
    """Raises MalformedObject; what the object leaves out has the defaults of the domain."""
    wire = decoded(_class, raw, "GPUClass")
    metadata, spec, status = wire.metadata, wire.spec, wire.status
    try:
        unit, limits = _unit(spec.unit), _limits(spec.limits)
        keep_finished = _duration(spec.keep_finished, _KEEP_FINISHED)
    except MalformedObject as error:
        raise malformed(metadata, "GPUClass", error) from error
    return GpuClass(
        name=metadata.name,
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created,
        label=spec.label_value or metadata.name,
        display_name=spec.display_name,
        generation=metadata.generation,
        mode=spec.mode,
        mode_for=tuple([(frozenset(entry.namespaces), entry.mode) for entry in spec.mode_for or ()]),
        default_for=frozenset(spec.default_for.namespaces) if spec.default_for is not None else frozenset(),
        without_reservation=spec.without_reservation,
        unit=unit,
        spare=spec.spare,
        limits=limits,
        on_cancel=spec.on_cancel,
        keep_finished=keep_finished,
        confirmations=status.confirmations,
        units=ClassUnits(**msgspec.structs.asdict(status.units)) if status.units else None,
        conditions=conditions_of(status.conditions),
        conflict=any(c.type == CONFLICT and c.status == "True" for c in status.conditions or ()),
    )


def encode_class_status(
    units: ClassUnits, nodes: str, conditions: Iterable[Condition], observed_generation: int
) -> dict[str, object]:
    """The part of a class's status that counting writes; `confirmations` is not in it, confirming owns that."""
    counted = UnitsWire(
        physical=units.physical,
        schedulable=units.schedulable,
        unreserved=units.unreserved,
        spare=units.spare,
        bookable=units.bookable,
        reserved=units.reserved,
        claimed=units.claimed,
        free=units.free,
        largest_block=units.largest_block,
    )
    return {
        "observedGeneration": observed_generation,
        "nodes": nodes,
        "units": msgspec.to_builtins(counted),
        "conditions": encode_conditions(conditions),
    }


def _unit(wire: UnitWire | None) -> Unit:
    if wire is None:
        return _DEFAULT_UNIT
    resources = quantities(wire.resources) or _DEFAULT_UNIT.resources
    empty = next((resource for resource, amount in resources.items() if not amount), None)
    if empty is not None:
        msg = f"spec.unit.resources: a unit has none of {empty}, it must have more than zero"
        raise MalformedObject(msg)
    return Unit(wire.name, resources)


def _limits(wire: LimitsWire | None) -> Limits:
    if wire is None:
        return _DEFAULT_LIMITS
    return Limits(
        max_duration=_duration(wire.max_duration, _DEFAULT_LIMITS.max_duration),
        max_ahead=_duration(wire.max_ahead, _DEFAULT_LIMITS.max_ahead),
        max_units_per_reservation=wire.max_units_per_reservation,
        max_units_per_namespace=wire.max_units_per_namespace,
        max_reservations_per_namespace=(
            _DEFAULT_LIMITS.max_reservations_per_namespace
            if wire.max_reservations_per_namespace is None
            else wire.max_reservations_per_namespace
        ),
        namespaces=tuple(wire.namespaces or ()),
    )


def _duration(text: str | None, default: D) -> D | timedelta:
    return default if text is None else duration(text)
