"""Before its window a pod is held and told until when; it starts when the window opens, and never before."""

from __future__ import annotations

from datetime import timedelta

import pytest

from common.domain import keys
from tests.controlplane.audit import AuditEvent
from tests.controlplane.polling import until
from tests.controlplane.recording import Recorder
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S, Stage, Tenant

pytestmark = pytest.mark.controlplane

AHEAD = timedelta(seconds=9)
"""The condition and the Event come after 5 s of waiting."""
PROMPT = timedelta(seconds=1)


@pytest.mark.kind
def test_pod_before_its_window_is_told_until_when_it_waits_and_starts_then(either_stage: Stage) -> None:
    stage = either_stage.open(2)
    alice = stage.tenant()
    start = stage.now() + AHEAD
    alice.book_ahead("sprint", 2, start)
    with Recorder(stage.admin, "pods", alice.namespace) as recorder:
        reply = alice.create_pod("early")
        alice.runs("early", deadline_s=AHEAD.total_seconds() + DEADLINE_S)
        until(lambda: not reading.condition(alice.pod("early")), DEADLINE_S, "the condition goes")

    _is_told_at_create(stage, reply.object, reply.warnings, reading.on_the_wire(start))
    waiting = [change.object for change in recorder.changes("early") if not reading.node(change.object)]
    conditions = [reading.condition(pod) for pod in waiting if reading.held(pod) and reading.condition(pod)]
    assert conditions
    assert {told["reason"] for told in conditions} == {"WaitingForReservation"}
    assert {told["message"] for told in conditions} == {reading.sentence(reply.object)}
    assert alice.event("Pod", "early", "WaitingForReservation")["message"] == reading.sentence(reply.object)
    reasons = sorted(event["reason"] for event in alice.events("Pod", "early"))
    assert reasons == ["RuntimeGuaranteed", "WaitingForReservation"]
    after = alice.pod("early")
    assert keys.HELD not in reading.annotations(after)
    assert keys.HELD_UNTIL not in reading.annotations(after)
    assert reading.started(after) >= start


@pytest.mark.usefixtures("audit_log")
def test_pod_is_let_in_by_one_write_within_a_second_of_its_window_and_never_before(either_stage: Stage) -> None:
    stage = either_stage.open(2)
    alice = stage.tenant()
    start = stage.now() + timedelta(seconds=5)
    alice.book_ahead("sprint", 2, start)
    alice.create_pod("early")
    alice.runs("early")
    opening = _opening(alice, "early")
    assert start <= opening.received
    assert opening.completed <= start + PROMPT
    binding = stage.cluster.audit.writes("pods", "early", alice.namespace, subresource="binding")[0]
    assert start <= binding.received


def _is_told_at_create(stage: Stage, pod: dict[str, object], warnings: tuple[str, ...], start: str) -> None:
    assert reading.held(pod)
    assert reading.tolerated(pod) == []
    assert reading.reason(pod) == "WaitingForReservation"
    assert reading.annotations(pod)[keys.HELD_UNTIL] == start
    assert f"reservation sprint (2 × {stage.gpu_class}) opens " in reading.sentence(pod)
    assert len(warnings) == 1
    assert warnings[0].startswith(f"held: reservation sprint (2 × {stage.gpu_class}) opens ")


def _opening(tenant: Tenant, name: str) -> AuditEvent:
    """The one write with which the reconciler let a pod in."""
    audit = tenant.stage.cluster.audit
    writes = audit.writes("pods", name, tenant.namespace, subresource="", by=reading.RECONCILER)
    assert len(writes) == 1, writes
    return writes[0]


@pytest.mark.usefixtures("audit_log")
def test_every_pod_that_waits_for_one_window_is_let_in_as_far_as_its_units_go(stage: Stage) -> None:
    stage.open(16)
    alice = stage.tenant()
    start = stage.now() + timedelta(seconds=5)
    alice.book_ahead("sprint", 10, start)
    for number in range(12):
        alice.create_pod(f"early-{number:02}")

    def running() -> list[str]:
        return [pod["metadata"]["name"] for pod in alice.pods() if reading.phase(pod) == "Running"]

    until(lambda: len(running()) == 10, DEADLINE_S, "ten pods run")
    late = [_opening(alice, name).completed for name in running()]
    assert min(late) >= start
    assert max(late) <= start + 2 * PROMPT
    for name in {f"early-{number:02}" for number in range(12)} - set(running()):
        alice.waits_for(name, "ReservationFull")


@pytest.mark.usefixtures("audit_log")
def test_window_that_is_over_lets_nobody_in_and_stops_nobody(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    end = reading.instant(alice.hold_open(units=2, duration=timedelta(seconds=4))["status"]["granted"]["end"])
    alice.create_pod("trainer-0")
    alice.runs("trainer-0")
    alice.reaches("sprint", "Ended")

    phases = stage.cluster.audit.writes("gpureservations", "sprint", alice.namespace, by=reading.RECONCILER)
    assert next(w.received for w in phases if (w.response or {})["status"]["phase"] == "Ended") >= end
    assert reading.reason(alice.create_pod("late").object) == "NoReservation"
    assert reading.phase(alice.pod("trainer-0")) == "Running"
    assert stage.cluster.audit.writes("pods", "trainer-0", alice.namespace, by=reading.RECONCILER) == []
