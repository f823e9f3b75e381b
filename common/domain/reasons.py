"""The closed list of reasons why a pod waits (R5), and the sentence that goes with one."""

from dataclasses import dataclass
from enum import StrEnum

from common.domain.time import Instant


class Reason(StrEnum):
    UNDECIDED = "Undecided"
    NO_RESERVATION = "NoReservation"
    RESERVATION_NOT_FOUND = "ReservationNotFound"
    RESERVATION_PENDING = "ReservationPending"
    WAITING_FOR_RESERVATION = "WaitingForReservation"
    RESERVATION_FULL = "ReservationFull"
    RESERVATION_TOO_SMALL = "ReservationTooSmall"
    RESERVATION_FRAGMENTED = "ReservationFragmented"
    WAITING_FOR_UNITS = "WaitingForUnits"
    UNKNOWN_GPU_CLASS = "UnknownGpuClass"
    NO_GPU_REQUEST = "NoGpuRequest"
    NO_MATCHING_NODE = "NoMatchingNode"
    WAITING_FOR_NODE = "WaitingForNode"
    OTHER_GATE = "OtherGate"
    HELD_BY_OWN_SIBLING = "HeldByOwnSibling"


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a pod is not let in now. `sentence` has no relative time and nothing of other tenants.

    `until` is the instant at which the answer can change by itself, where one is known. `reservation` is the name of
    the reservation of the pod's namespace that it waits for, where there is one.
    """

    reason: Reason
    sentence: str
    until: Instant | None = None
    reservation: str | None = None

    @property
    def annotation(self) -> str:
        """Value of the annotation `gpures.dev/held`."""
        return f"{self.reason}: {self.sentence}"
