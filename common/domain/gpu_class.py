"""GPUClass as the decisions see it: what one unit is and what holds for pods that ask for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from enum import StrEnum

from common.domain.reservation import Condition
from common.domain.time import Instant


class Mode(StrEnum):
    OBSERVE = "Observe"
    WARN = "Warn"
    ENFORCE = "Enforce"


class WithoutReservation(StrEnum):
    HOLD = "Hold"
    ALLOW = "Allow"


class OnCancel(StrEnum):
    LAZY = "Lazy"
    EVICT = "Evict"


@dataclass(frozen=True, slots=True)
class Unit:
    """One unit of a class: so much of each resource (reservation-api.md, "Units, both ways")."""

    name: str = "GPU"
    resources: Mapping[str, Decimal] = field(default_factory=lambda: {"nvidia.com/gpu": Decimal(1)})


@dataclass(frozen=True, slots=True)
class Limits:
    """None means unlimited; an empty `namespaces` admits every namespace."""

    max_duration: timedelta | None = timedelta(hours=168)
    max_ahead: timedelta | None = timedelta(hours=720)
    max_units_per_reservation: int | None = None
    max_units_per_namespace: int | None = None
    namespaces: tuple[str, ...] = ()
    max_reservations_per_namespace: int | None = 200
    """Live ones; why so many: ADR 0011."""


@dataclass(frozen=True, slots=True)
class ClassUnits:
    """`status.units`, all in units of the class.

    physical: what the class's nodes have in all. schedulable: of those, on ready and uncordoned nodes.
    unreserved: running without ever having been let in. bookable: physical - spare - unreserved.
    reserved: promised at this instant. claimed: sum of claims. free: schedulable and used by nobody (may be negative).
    largest_block: most units free on one node.
    """

    physical: int = 0
    schedulable: int = 0
    unreserved: int = 0
    spare: int = 0
    bookable: int = 0
    reserved: int = 0
    claimed: int = 0
    free: int = 0
    largest_block: int = 0


@dataclass(frozen=True, slots=True)
class GpuClass:
    name: str
    uid: str
    version: str
    created: Instant
    label: str
    """Value of the pod label `gpu-class` and of the node taint; the object's name unless `labelValue` is set."""
    display_name: str = ""
    generation: int = 1
    mode: Mode = Mode.ENFORCE
    mode_for: tuple[tuple[frozenset[str], Mode], ...] = ()
    default_for: frozenset[str] = frozenset()
    """Namespaces where pods that ask for a unit and name no class get its label from the API server."""
    without_reservation: WithoutReservation = WithoutReservation.HOLD
    unit: Unit = field(default_factory=Unit)
    spare: int = 0
    limits: Limits = field(default_factory=Limits)
    on_cancel: OnCancel = OnCancel.LAZY
    keep_finished: timedelta = timedelta(hours=336)
    confirmations: int = 0
    """`status.confirmations`: the counter that rounds of confirmation compare and swap (R8)."""
    units: ClassUnits | None = None
    """None until the reconciler has counted once: unknown is not zero (R4)."""
    conditions: tuple[Condition, ...] = ()
    conflict: bool = False
    """True when an older class has the same label value; such a class decides nothing."""

    def mode_in(self, namespace: str) -> Mode:
        """First matching entry of `modeFor`, else `mode`."""
        return next((mode for namespaces, mode in self.mode_for if namespace in namespaces), self.mode)
