"""What `kubectl get gpures` says of a reservation: used, waiting, and the most important condition's reason."""

from collections.abc import Iterable
from dataclasses import dataclass

from common.domain import texts
from common.domain.gpu_class import GpuClass
from common.domain.pod import PodView
from common.domain.reservation import OPENABLE, Condition, Phase, Reservation
from common.domain.time import Instant

MAX_NAMES = 3


@dataclass(frozen=True, slots=True)
class Summary:
    """The fields that follow from pods and nodes; written together, coalesced, only when something differs."""

    used: str
    used_by: tuple[str, ...]
    waiting_pods: int
    reason: str
    message: str
    at_risk: Condition | None

    def differs_from(self, reservation: Reservation) -> bool:
        return (
            self.used != reservation.used
            or self.used_by != reservation.used_by
            or self.waiting_pods != reservation.waiting_pods
            or self.reason != reservation.reason
            or self.message != reservation.message
            or _key(self.at_risk) != _key(reservation.condition("AtRisk"))
        )


def summarise(
    reservation: Reservation,
    holders: Iterable[PodView],
    waiting: int,
    gpu_class: GpuClass | None,
    now: Instant,
    display: texts.Display,
) -> Summary:
    """`holders` are the live pods whose tokens stand in the reservation."""
    granted = reservation.granted
    used = f"{reservation.claimed}/{granted.units}" if granted else (str(reservation.claimed or "") or "")
    names = sorted(pod.name for pod in holders)
    used_by = tuple(names[:MAX_NAMES]) + ((f"+{len(names) - MAX_NAMES}",) if len(names) > MAX_NAMES else ())
    risk = at_risk(reservation, gpu_class, now, display)
    reason, message = _headline(reservation, risk)
    return Summary(used, used_by, waiting if reservation.phase in OPENABLE else 0, reason, message, risk)


def at_risk(
    reservation: Reservation, gpu_class: GpuClass | None, now: Instant, display: texts.Display
) -> Condition | None:
    """Nodes are missing for what is promised now; the booking stays, the condition says how much and since when."""
    before = reservation.condition("AtRisk")
    missing = 0
    if (
        reservation.phase is Phase.ACTIVE
        and reservation.granted is not None
        and gpu_class is not None
        and gpu_class.units is not None
    ):
        short = gpu_class.units.reserved - (gpu_class.units.schedulable - gpu_class.units.unreserved)
        missing = min(reservation.granted.units, max(0, short))
    if not missing:
        if before is None or before.status == "False":
            return before
        return Condition("AtRisk", "False", "NodesReady", "all units are there", now, reservation.generation)
    since = before.since if before is not None and before.status == "True" else now
    units = reservation.granted.units if reservation.granted else 0
    since_text = display.instant(since, same_day_as=now)
    message = (
        f"{missing} of your {units} {reservation.wish.gpu_class} may be missing since {since_text} because "
        "nodes are not ready; the booking stays yours, the operators can see this"
    )
    return Condition("AtRisk", "True", "AtRisk", message, since, reservation.generation)


def _headline(reservation: Reservation, risk: Condition | None) -> tuple[str, str]:
    """AtRisk, then a refused change, then what confirmation said."""
    applied = reservation.condition("Applied")
    confirmed = reservation.condition("Confirmed")
    if risk is not None and risk.status == "True":
        return "AtRisk", risk.message
    if reservation.phase in OPENABLE and applied is not None and applied.status == "False":
        return applied.reason, applied.message
    if reservation.phase in OPENABLE and applied is not None and applied.status == "True" and confirmed is not None:
        return confirmed.reason, applied.message
    if reservation.phase in (*OPENABLE, Phase.DENIED) and confirmed is not None:
        return confirmed.reason, confirmed.message
    return reservation.reason, reservation.message


def _key(condition: Condition | None) -> tuple[str, str, str] | None:
    return (condition.status, condition.reason, condition.message) if condition else None
