"""What `kubectl get gpures` says, coalesced."""

from datetime import timedelta
from typing import Any

import structlog

from common.adapters.wire.conditions import encode_conditions
from common.domain import reservation_status
from common.domain.errors import Conflict, NotFound, Refused
from common.domain.reservation import Condition, ObjectKey, Phase, Reservation
from common.domain.time import Instant
from reconciler.queue import Work
from reconciler.world import World

log = structlog.get_logger(__name__)

SUMMARY_EVERY = timedelta(seconds=0.5)


class Summaries:
    """The columns, coalesced: at most one write each `SUMMARY_EVERY`, and only when something differs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._written: dict[ObjectKey, Instant] = {}

    async def handle(self, work: Work) -> None:
        world = self._world
        key = ObjectKey(work.namespace, work.name)
        reservation = world.state.reservations.get(key)
        at = self._written.get(key)
        if reservation is None or reservation.phase in (Phase.PENDING, Phase.CONFIRMING):
            self._written.pop(key, None)
            return
        if at is not None and at <= world.now < at + SUMMARY_EVERY:  # a clock that was set back silences nothing
            world.agenda.put(work, at + SUMMARY_EVERY)
            return
        gpu_class = world.state.classes.get(reservation.wish.gpu_class)
        pods = world.state.pods_in(reservation.namespace)
        holders = [pod for pod in pods if pod.live and pod.token in reservation.claims]
        waiting = world.state.waiting_for(key)
        summary = reservation_status.summarise(reservation, holders, waiting, gpu_class, world.now, world.display)
        if not summary.differs_from(reservation):
            return
        try:
            await world.writes.summary(reservation, _operations(reservation, summary))
        except (Refused, Conflict, NotFound) as miss:
            log.info("summary.missed", reservation=str(reservation.key), why=str(miss))
            return
        self._written[key] = world.now
        before = reservation.condition("AtRisk")
        if _at_risk(summary.at_risk) and not _at_risk(before):
            world.events.reservation(reservation, "AtRisk", "WatchNodes", summary.message, "Warning")


def _operations(reservation: Reservation, summary: reservation_status.Summary) -> list[dict[str, Any]]:
    fields: dict[str, Any] = {
        "used": summary.used,
        "usedBy": list(summary.used_by),
        "waitingPods": summary.waiting_pods,
        "reason": summary.reason,
        "message": summary.message,
    }
    # What a summary says follows from the phase: a late one must not speak over the sentence of an ending.
    operations: list[dict[str, Any]] = [{"op": "test", "path": "/status/phase", "value": str(reservation.phase)}]
    if summary.at_risk is not None and summary.at_risk != reservation.condition("AtRisk"):
        conditions = [c for c in reservation.conditions if c.type != "AtRisk"] + [summary.at_risk]
        fields["conditions"] = encode_conditions(conditions)
        # Confirming writes conditions too: only over the list that this one was made from.
        operations.append({"op": "replace", "path": "/metadata/resourceVersion", "value": reservation.version})
    operations += [{"op": "add", "path": f"/status/{name}", "value": value} for name, value in fields.items()]
    return operations


def _at_risk(condition: Condition | None) -> bool:
    return condition is not None and condition.status == "True"
