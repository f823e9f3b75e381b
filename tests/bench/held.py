"""Pods that wait for a window, and what the audit log says of how they got in."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from tests.bench import tally
from tests.bench.scene import DEADLINE_S, RESERVATIONS, Scene, next_second, sleep_until
from tests.bench.workers import WorkerError
from tests.controlplane.audit import AuditEvent
from tests.controlplane.polling import NotInTimeError, until

IN_FLIGHT = 40
# Pods are told after 5 s what they wait for; that shall be over when the window opens.
BASE_S, EACH_S, SLACK_S = 12.0, 0.06, 3.0


@dataclass(frozen=True)
class Opening:
    """Instants by the clock of the API server, which is this machine's."""

    namespace: str
    start: datetime
    sent: datetime
    """The first write for these pods was received: their claims."""
    accepted: Sequence[datetime]
    """The opening patches were answered, in that order."""


def hold(scene: Scene, namespace: str, count: int) -> datetime:
    """Book a window ahead and create pods for it; returns its start, once they wait and nothing else happens."""
    start = next_second(BASE_S + count * EACH_S)
    scene.book(namespace, count, start)
    scene.create(namespace, count, min(IN_FLIGHT, count))
    if (start - datetime.now(UTC)).total_seconds() < SLACK_S:
        message = f"{count} pods could not be created before their window opened: this machine is too slow or too busy"
        raise WorkerError(message)
    return start


def released(scene: Scene, namespace: str, start: datetime, count: int) -> Opening:
    """Wait until all of them are let in."""
    sleep_until(start)
    until(lambda: _all_claimed(scene, namespace, count), DEADLINE_S, f"nobody waits in {namespace}")
    return opened(scene, namespace, start, count)


def opened(scene: Scene, namespace: str, start: datetime, count: int) -> Opening:
    """Wait until the audit log has them all: the columns may be behind."""

    def whole() -> Opening | None:
        try:
            return opening(scene.cluster.audit.events(), namespace, start, count)
        except WorkerError:
            return None

    with suppress(NotInTimeError):
        until(whole, DEADLINE_S, f"{count} pods of {namespace} opened")
    return opening(scene.cluster.audit.settled(), namespace, start, count)


def opening(events: Sequence[AuditEvent], namespace: str, start: datetime, count: int) -> Opening:
    """Raises WorkerError where the log does not show that many openings."""
    ours = [
        event for event in events if event.stored and event.namespace == namespace and event.user == tally.RECONCILER
    ]
    claims = [event.received for event in ours if tally.is_claim(event)]
    answered = sorted(event.completed for event in ours if tally.kind(event) is tally.Write.OPEN)
    if not claims or len(answered) != count:
        message = f"{namespace}: {len(answered)} of {count} pods were opened, with {len(claims)} claim patches"
        raise WorkerError(message)
    return Opening(namespace, start, min(claims), answered)


def _all_claimed(scene: Scene, namespace: str, count: int) -> bool:
    """By the reservation, one small object: lists of all pods, or reading the log, would disturb what is measured."""
    status = scene.admin.get(RESERVATIONS, "sprint", namespace)["status"]
    return len(status.get("claims") or {}) == count and int(status.get("waitingPods", 0)) == 0
