"""Forty pods ask for eight units at once: never more are given, and each pod that ends lets the next one in."""

from __future__ import annotations

from collections.abc import Container, Sequence
from datetime import timedelta

import pytest

from common.domain import keys
from tests.controlplane.audit import AuditEvent
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.controlplane.recording import Change, Recorder
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S, Stage, Tenant, at_once

pytestmark = pytest.mark.controlplane

BOOKED = 8
PODS = 40
PROMPT = timedelta(seconds=1)


@pytest.mark.usefixtures("audit_log")
def test_forty_pods_share_eight_units_and_each_one_that_ends_lets_the_next_in(stage: Stage) -> None:
    # The nodes have room for twice as much: only the booking keeps the pods back.
    stage.open(8, 8)
    alice = stage.tenant()
    alice.hold_open(units=BOOKED)
    with (
        Recorder(stage.admin, "pods", alice.namespace) as pods,
        Recorder(stage.admin, "gpureservations.gpures.dev", alice.namespace) as reservations,
    ):
        at_once(lambda number: alice.create_pod(f"pod-{number:02}", gpus=1 + number % 2), range(PODS))
        _wait_until_settled(alice)
        handovers = _end_one_after_the_other(alice)
        until(lambda: not reading.claims(alice.reservation()), DEADLINE_S, "no claim is left")

    assert max(sum(reading.claims(change.object).values()) for change in reservations.changes()) == BOOKED
    assert _most_units_in_use(pods.changes()) == BOOKED
    assert len(handovers) >= PODS / 4
    slow = [message for message in (_too_slow(alice, *pair) for pair in handovers) if message]
    assert slow == []
    assert min(stage.product.service.served.values()) > 0, stage.product.service.served


def _wait_until_settled(tenant: Tenant) -> None:
    """Everything that fits runs, and the others are told why not."""

    def settled() -> bool:
        stored = tenant.pods()
        inside = [pod for pod in stored if reading.phase(pod) == "Running"]
        outside = [pod for pod in stored if reading.held(pod)]
        full = sum(map(reading.units, inside)) == BOOKED
        return full and len(inside) + len(outside) == PODS and {*map(reading.reason, outside)} == {"ReservationFull"}

    until(settled, DEADLINE_S, "eight units run and all others are held as ReservationFull")


def _end_one_after_the_other(tenant: Tenant) -> Sequence[tuple[str, str]]:
    """End the oldest running pod until none is left; pairs of who went and who came in."""
    pairs = []
    for _ in range(PODS):
        stored = tenant.pods()
        inside = [pod for pod in stored if reading.let_in(pod) and not reading.over(pod)]
        leaving = min(inside, key=lambda pod: str(pod["metadata"]["creationTimestamp"]) + _name(pod))
        before = {_name(pod) for pod in stored if reading.let_in(pod)}
        tenant.runs(_name(leaving))
        tenant.stage.cluster.nodes.complete_pod(tenant.namespace, _name(leaving))
        room = BOOKED - sum(reading.units(pod) for pod in inside if pod is not leaving)
        fitting = [pod for pod in stored if reading.held(pod) and reading.units(pod) <= room]
        _wait_until_over(tenant, _name(leaving))
        if fitting:
            pairs.append((_name(leaving), _newcomer(tenant, before)))
    assert all(reading.over(pod) for pod in tenant.pods())
    return pairs


def _wait_until_over(tenant: Tenant, name: str) -> None:
    until(lambda: reading.over(tenant.pod(name)), DEADLINE_S, f"{name} ends")


def _newcomer(tenant: Tenant, before: Container[str]) -> str:
    """The first pod that was not in before."""

    def come() -> str | None:
        return next((_name(p) for p in tenant.pods() if reading.let_in(p) and _name(p) not in before), None)

    return until(come, DEADLINE_S, "somebody comes in")


def _most_units_in_use(changes: Sequence[Change]) -> int:
    """The most units that pods held at any moment: let in, or bound, and not over."""
    using: dict[str, int] = {}
    most = 0
    for change in changes:
        pod = change.object
        takes = (reading.let_in(pod) or bool(reading.node(pod))) and not reading.over(pod) and change.type != "DELETED"
        using[_name(pod)] = reading.units(pod) if takes else 0
        most = max(most, sum(using.values()))
    return most


def _too_slow(tenant: Tenant, leaving: str, coming: str) -> str | None:
    """By the API server's own clock, from the write that ended one pod to the write that let the other in."""
    audit = tenant.stage.cluster.audit
    ended = audit.writes("pods", leaving, tenant.namespace, subresource="status")
    end = next(write.completed for write in ended if _says_over(write))
    opened = audit.writes("pods", coming, tenant.namespace, subresource="", by=reading.RECONCILER)
    opening = next(write.completed for write in opened if keys.CLAIM in reading.annotations(write.response or {}))
    return None if opening - end <= PROMPT else f"{coming} came {opening - end} after {leaving}"


def _says_over(write: AuditEvent) -> bool:
    return write.response is not None and reading.over(write.response)


def _name(pod: JsonObject) -> str:
    return str(pod["metadata"]["name"])
