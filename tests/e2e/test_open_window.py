"""A pod whose window is open leaves admission already let in: nobody writes to it before the scheduler binds it."""

from __future__ import annotations

import pytest

from common.domain import keys
from tests.e2e import reading
from tests.e2e.stage import Stage

pytestmark = pytest.mark.controlplane


@pytest.mark.usefixtures("audit_log")
def test_pod_is_bound_without_a_write_between_create_and_binding(either_stage: Stage) -> None:
    stage = either_stage.open(2)
    alice = stage.tenant()
    alice.hold_open(units=2)
    reply = alice.create_pod("trainer-0", gpus=2)
    alice.runs("trainer-0")

    assert reply.warnings == ()
    assert reading.let_in(reply.object)
    # The log has them as they were answered, and the scheduler may be quicker than the answer to the user.
    writes = sorted(stage.cluster.audit.writes("pods", "trainer-0", alice.namespace), key=lambda write: write.received)
    assert [(write.verb, write.subresource, write.by) for write in writes[:2]] == [
        ("create", "", alice.user),
        ("create", "binding", "system:kube-scheduler"),
    ]


@pytest.mark.kind
def test_admitted_pod_carries_its_booking_its_guarantee_and_a_claim(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    granted = alice.hold_open(units=3)["status"]["granted"]
    pod = alice.create_pod("trainer-0", gpus=2).object

    told = dict(reading.annotations(pod))
    token, admitted = told.pop(keys.CLAIM), reading.instant(told.pop(keys.ADMITTED_AT))
    left = int(told.pop(keys.RUNTIME_LIMIT))
    assert told == {
        keys.BOOKING_REFERENCE: "sprint",
        keys.RESERVATION_KIND: "booking",
        keys.RESERVATION_START: granted["start"],
        keys.RESERVATION_END: granted["end"],
        keys.RESERVATION_GPU_COUNT: "3",
        keys.GUARANTEED_UNTIL: granted["end"],
        keys.GUARANTEE_STATUS: "guaranteed",
        keys.GPU_CLASS_NAME: stage.gpu_class,
    }
    assert reading.labels(pod)[keys.RESERVATION_LABEL] == "sprint"
    assert reading.tolerated(pod) == [stage.gpu_class]
    assert reading.instant(granted["start"]) <= admitted <= reading.instant(granted["end"])
    # Both are whole seconds.
    assert 0 <= (reading.instant(granted["end"]) - admitted).total_seconds() - left <= 1
    assert reading.claims(alice.reservation()) == {token: 2}
    alice.runs("trainer-0")


@pytest.mark.usefixtures("audit_log")
def test_pod_costs_one_write_of_the_webhook_and_none_of_the_reconciler(stage: Stage) -> None:
    stage.open(2)
    alice = stage.tenant()
    alice.hold_open(units=2)
    alice.create_pod("trainer-0")
    alice.runs("trainer-0")

    claims = stage.cluster.audit.writes("gpureservations", namespace=alice.namespace, by=reading.WEBHOOK)
    assert [(claim.verb, claim.subresource, claim.name) for claim in claims] == [("patch", "status", "sprint")]
    assert stage.cluster.audit.writes("pods", namespace=alice.namespace, by=reading.RECONCILER) == []
