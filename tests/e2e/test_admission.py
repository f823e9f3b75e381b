"""Rows of `docs/reference/webhook.md` that need the real API server, scheduler and controllers to be believed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pytest

from common.domain import keys
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import never, until
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S, Stage, Tenant, refusal
from tests.e2e.workloads import a_daemon_set

pytestmark = pytest.mark.controlplane

OTHER_GATE = "example.com/quota"
A_MOMENT = 1.0


@pytest.mark.kind
def test_pod_that_names_its_node_is_refused(stage: Stage) -> None:
    stage.open(2)
    alice = stage.tenant()
    alice.hold_open(units=2)
    for dry_run in (False, True):
        error = refusal(partial(alice.create_pod, "trainer-0", spec={"nodeName": stage.nodes[0]}, dry_run=dry_run))
        assert error.code == 403
        assert "spec.nodeName goes round the scheduler" in error.message
    assert alice.pods() == []


def test_pod_behind_somebody_elses_gate_claims_nothing_until_that_gate_is_gone(either_stage: Stage) -> None:
    stage = either_stage.open(2)
    alice = stage.tenant()
    alice.hold_open(units=2)
    reply = alice.create_pod("trainer-0", spec={"schedulingGates": [{"name": OTHER_GATE}]})
    assert reading.gates(reply.object) == [OTHER_GATE, keys.GATE]
    assert reading.reason(reply.object) == "OtherGate"
    assert OTHER_GATE in reply.warnings[0]
    never(lambda: reading.claims(alice.reservation()), A_MOMENT, "a pod that cannot start claims units")

    without = [{"op": "remove", "path": "/spec/schedulingGates/0"}]
    alice.client.patch("pods", "trainer-0", without, alice.namespace, kind="json")
    assert reading.let_in(alice.runs("trainer-0"))


def test_pod_pinned_to_one_node_as_daemon_sets_do_it_is_let_in_and_lands_there(stage: Stage) -> None:
    stage.open(2, 2)
    alice = stage.tenant()
    alice.hold_open(units=4)
    for node in stage.nodes:
        alice.create_pod(f"on-{node}", spec={"affinity": _only(node)})
    assert [reading.node(alice.runs(f"on-{node}")) for node in stage.nodes] == stage.nodes


def _only(node: str) -> JsonObject:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_daemon_set_without_gpus_runs_on_reserved_nodes_with_a_toleration_of_its_own(stage: Stage) -> None:
    stage.open(2, 2)
    alice = stage.tenant()
    tolerations = [{"key": keys.TAINT, "operator": "Exists"}]
    spec = {"tolerations": tolerations, "nodeSelector": {"gpu-class": stage.gpu_class}}
    agent = a_daemon_set(alice, "agent", gpus=0, gpu_class="", spec=spec)
    alice.client.create(agent, namespace=alice.namespace)
    until(lambda: _running_on(alice) == sorted(stage.nodes), DEADLINE_S, "an agent runs on each node of the class")
    assert not any(map(reading.annotations, alice.pods()))


def _running_on(tenant: Tenant) -> Sequence[str]:
    return sorted(reading.node(pod) for pod in tenant.pods() if reading.phase(pod) == "Running")


@pytest.mark.usefixtures("audit_log")
def test_pod_with_the_label_that_asks_for_no_gpu_is_warned_and_left_alone(stage: Stage) -> None:
    stage.open(2)
    alice = stage.tenant()
    alice.hold_open(units=1)
    reply = alice.create_pod("trainer-0", gpus=0)
    assert [warning.partition(": ")[0] for warning in reply.warnings] == ["NoGpuRequest"]
    assert reading.gates(reply.object) == []
    assert reading.tolerated(reply.object) == []
    assert alice.event("Pod", "trainer-0", "NoGpuRequest")["message"] == reply.warnings[0].partition(": ")[2]
    assert stage.cluster.audit.writes("pods", "trainer-0", alice.namespace, by=reading.RECONCILER) == []


def test_pod_that_names_a_reservation_uses_that_one_or_waits(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.hold_open("sooner", units=1, duration=timedelta(hours=1))
    alice.hold_open("later", units=1, duration=timedelta(hours=2))
    named = alice.create_pod("named", annotations={keys.USE_RESERVATION: "later"}).object
    typo = alice.create_pod("typo", annotations={keys.USE_RESERVATION: "latr"})
    assert reading.annotations(named)[keys.BOOKING_REFERENCE] == "later"
    assert reading.reason(typo.object) == "ReservationNotFound"
    assert 'has no reservation "latr"' in typo.warnings[0]
    assert reading.annotations(alice.create_pod("unnamed").object)[keys.BOOKING_REFERENCE] == "sooner"
    assert reading.node(alice.waits_for("typo", "ReservationNotFound")) == ""


@pytest.mark.parametrize(("mode", "warned"), [("Observe", False), ("Warn", True)])
def test_class_that_does_not_enforce_leaves_pods_as_they_came(stage: Stage, mode: str, *, warned: bool) -> None:
    stage.open(2, mode=mode)
    alice = stage.tenant()
    alice.book(units=2, start=stage.now() + timedelta(hours=1))
    alice.reaches("sprint", "Confirmed")

    def answer() -> bool:
        return bool(alice.create_pod("probe", dry_run=True).warnings) is warned

    until(answer, DEADLINE_S, f"the webhook knows the class in mode {mode}")
    reply = alice.create_pod("trainer-0")
    assert [warning.partition(" opens ")[0] for warning in reply.warnings] == (
        [f"would be held: reservation sprint (2 × {stage.gpu_class})"] if warned else []
    )
    assert reading.gates(reply.object) == []
    assert reading.tolerated(reply.object) == []
    assert "annotations" not in reply.object["metadata"]
    never(lambda: "annotations" in alice.pod("trainer-0")["metadata"], A_MOMENT, "the reconciler writes to the pod")


def test_class_that_allows_pods_without_reservation_keeps_them_off_reserved_nodes_only(stage: Stage) -> None:
    stage.open(2, withoutReservation="Allow")
    free = stage.add_node(2, taint=False)
    alice = stage.tenant()
    here = {"nodeSelector": {"gpu-class": stage.gpu_class}}
    unreserved = alice.create_pod("unreserved", gpus=2, spec=here)
    assert unreserved.warnings == ()
    assert reading.gates(unreserved.object) == []
    assert reading.tolerated(unreserved.object) == []
    assert reading.node(alice.runs("unreserved")) == free

    alice.hold_open(units=2)
    reserved = alice.create_pod("reserved", gpus=2, spec=here).object
    assert reading.let_in(reserved)
    assert reading.node(alice.runs("reserved")) == stage.nodes[0]


@pytest.mark.usefixtures("audit_log")
def test_dry_run_answers_like_a_create_and_writes_nothing(stage: Stage) -> None:
    stage.open(2)
    alice = stage.tenant()
    alice.hold_open(units=1)
    before = alice.reservation()
    assert reading.let_in(alice.create_pod("trainer-0", dry_run=True).object)
    assert reading.reason(alice.create_pod("trainer-1", gpus=2, dry_run=True).object) == "ReservationTooSmall"
    assert stage.cluster.audit.writes("pods", namespace=alice.namespace) == []
    assert alice.reservation() == before


def test_stored_pod_is_the_same_with_and_without_the_hold_policy(
    stage: Stage, stage_without_hold_policy: Stage
) -> None:
    with_policy = _stored(stage)
    without_policy = _stored(stage_without_hold_policy)
    assert with_policy == without_policy


def _stored(stage: Stage) -> Sequence[str]:
    """One pod that is let in, one that is full and one that is annotated and gated, without what always differs."""
    stage.open(4)
    alice = stage.tenant()
    start = stage.now().replace(minute=0, second=0) + timedelta(hours=3)
    alice.hold_open("open", units=1, duration=None, end=reading.on_the_wire(start))
    notes = {"example.com/note": "x"}
    created = [
        alice.create_pod("open", annotations=notes),
        alice.create_pod("full"),
        alice.create_pod("gated", annotations=notes, spec={"schedulingGates": [{"name": OTHER_GATE}]}),
    ]
    return [_comparable(alice, reply.object) for reply in created]


VARYING = (
    keys.CLAIM,
    keys.ADMITTED_AT,
    keys.RESERVATION_START,
    keys.RUNTIME_LIMIT,
    # Its sentence has the time of day; the two clusters show that of different zones.
    keys.HELD,
)


def _comparable(tenant: Tenant, pod: JsonObject) -> str:
    stored = json.loads(json.dumps(pod))
    meta = stored["metadata"]
    for field in ("uid", "resourceVersion", "creationTimestamp", "managedFields"):
        meta.pop(field, None)
    meta["annotations"] = {
        key: reading.reason(pod) if key == keys.HELD else ("" if key in VARYING else value)
        for key, value in meta["annotations"].items()
    }
    for condition in stored["status"].get("conditions", []):
        condition.pop("lastTransitionTime")
    for volume in (*stored["spec"]["volumes"], *stored["spec"]["containers"][0]["volumeMounts"]):
        volume["name"] = "token"
    text = json.dumps(stored, indent=1, sort_keys=True)
    return text.replace(tenant.namespace, "<namespace>").replace(tenant.stage.gpu_class, "<class>")


def test_what_only_we_write_is_taken_out_of_a_pod_with_a_warning(either_stage: Stage) -> None:
    stage = either_stage.open(2)
    alice = stage.tenant()
    forged = {keys.BOOKING_REFERENCE: "mine", keys.GUARANTEED_UNTIL: "2099-01-01T00:00:00Z"}
    reply = alice.create_pod("trainer-0", annotations=forged, labels={keys.RESERVATION_LABEL: "mine"})
    assert reply.warnings[1] == (
        f"only the reservation system writes {keys.BOOKING_REFERENCE}, {keys.GUARANTEED_UNTIL} and "
        f"{keys.RESERVATION_LABEL}; what the pod brought is not kept"
    )
    assert {*reading.annotations(reply.object)} == {keys.HELD}
    assert {*reading.labels(reply.object)} == {keys.CLASS_LABEL}
