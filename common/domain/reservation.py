"""GPUReservation as the decisions see it: the spec is the wish, `granted` the promise."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import NamedTuple, NewType

from common.domain.time import Instant, Window, after

Token = NewType("Token", str)
"""`<mint second>-<units>-<random>` from the webhook, `<creation second>-<units>-<pod uid>` from the reconciler."""

MAX_CLAIMS = 1024


class ObjectKey(NamedTuple):
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Phase(StrEnum):
    PENDING = "Pending"
    CONFIRMING = "Confirming"
    CONFIRMED = "Confirmed"
    ACTIVE = "Active"
    ENDED = "Ended"
    DENIED = "Denied"
    CANCELED = "Canceled"


OPENABLE = frozenset({Phase.CONFIRMED, Phase.ACTIVE})
"""The phases that hold a promise; CEL on the CRD accepts claims in these only (R1)."""
TERMINAL = frozenset({Phase.ENDED, Phase.DENIED, Phase.CANCELED})


class ReservationType(StrEnum):
    BOOKING = "Booking"
    ON_DEMAND = "OnDemand"
    BEST_EFFORT = "BestEffort"


@dataclass(frozen=True, slots=True)
class Granted:
    """The promise: so many units from `window.start` to `window.end`."""

    window: Window
    units: int


@dataclass(frozen=True, slots=True)
class Wish:
    """The spec. Exactly one of `end` and `duration` is set; `start` None means at confirmation."""

    gpu_class: str
    units: int = 1
    start: Instant | None = None
    end: Instant | None = None
    duration: timedelta | None = None
    pods: Mapping[str, str] = field(default_factory=dict)
    cancel: bool = False
    type: ReservationType = ReservationType.BOOKING

    def window_at(self, start: Instant) -> Window:
        """The window when it starts at `start`; raises ValueError when `end` lies before it."""
        end = self.end if self.end is not None else after(start, self.duration or timedelta())
        return Window(start, end)


@dataclass(frozen=True, slots=True)
class Condition:
    """Kubernetes condition; `since` is lastTransitionTime."""

    type: str
    status: str
    reason: str
    message: str
    since: Instant
    observed_generation: int = 0


@dataclass(frozen=True, slots=True)
class Reservation:
    key: ObjectKey
    uid: str
    version: str
    created: Instant
    generation: int
    wish: Wish
    phase: Phase = Phase.PENDING
    observed_generation: int = 0
    granted: Granted | None = None
    guaranteed_until: Instant | None = None
    claims: Mapping[Token, int] = field(default_factory=dict)
    used_by: tuple[str, ...] = ()
    """Up to three pods of the namespace that hold its units, then "and N others"; for sentences only."""
    waiting_pods: int = 0
    used: str = ""
    reason: str = ""
    message: str = ""
    fast_path_until: Instant | None = None
    conditions: tuple[Condition, ...] = ()
    created_by: str = ""
    changed_by: str = ""
    stamped_created_by: str = ""
    """The annotation that admission stamped; copied to `status.createdBy`."""
    stamped_changed_by: str = ""
    finished: Instant | None = None
    """`status.finishedAt`: when it reached a terminal phase."""

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def claimed(self) -> int:
        return sum(self.claims.values())

    @property
    def room(self) -> int:
        """Units that a claim may still take; never negative, zero without a promise."""
        return max(0, self.granted.units - self.claimed) if self.granted and self.phase in OPENABLE else 0

    @property
    def occupied(self) -> int:
        """Units that it keeps from others: max(granted, claimed), design section 3 "Capacity"."""
        return max(self.granted.units if self.granted else 0, self.claimed)

    def condition(self, type_: str) -> Condition | None:
        return next((c for c in self.conditions if c.type == type_), None)
