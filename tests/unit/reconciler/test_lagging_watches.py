"""A watch that is behind another one ends nothing and lets nobody go (R4)."""

from common.domain.errors import OutcomeUnknown, Refused
from tests.support import manifests
from tests.unit.reconciler.stage import Stage


def _unseen_class(stage: Stage, name: str) -> None:
    """Stored, and not told by the watch yet."""
    stage.leader.deaf = True
    stage.kube.put("gpuclasses", {**manifests.a_class(name), "status": {"confirmations": 0}})
    stage.leader.deaf = False


async def test_a_reservation_of_a_class_that_was_not_seen_yet_is_not_denied() -> None:
    stage = Stage()
    _unseen_class(stage, "a100")
    stage.book(gpuClass="a100")
    await stage.settle()
    assert stage.phase() == "Pending"


async def test_a_gated_pod_of_a_class_that_was_not_seen_yet_keeps_its_gate() -> None:
    stage = Stage()
    _unseen_class(stage, "a100")
    stage.hold(gpu_class="a100")
    await stage.settle()
    assert stage.pod()["spec"]["schedulingGates"]


async def test_a_gated_pod_whose_class_is_gone_is_let_go() -> None:
    stage = Stage()
    stage.hold(gpu_class="gone")
    await stage.settle()
    assert not stage.pod()["spec"].get("schedulingGates")


async def test_one_pod_that_cannot_be_let_go_keeps_no_other_one_back() -> None:
    stage = Stage()
    stage.hold("a-first")
    stage.hold("b-second")
    for _ in range(3):
        stage.kube.when("PATCH", "pods/a-first$", _refused)
    stage.kube.put("gpuclasses", {**stage.kube.get("gpuclasses", "", "h100"), "spec": {"mode": "Observe"}})
    await stage.settle()
    assert not stage.pod("b-second")["spec"].get("schedulingGates")


async def test_a_reservation_that_cannot_be_written_stops_nobody_elses_confirmation() -> None:
    stage = Stage()
    stage.book("huge", "mallory")
    stage.kube.when("PATCH", "mallory/gpureservations/huge/status", _too_large)
    stage.book()
    await stage.settle()
    assert stage.phase() == "Active"
    await stage.advance(6)
    assert stage.phase("huge", "mallory") == "Active"


def _too_large() -> None:
    raise OutcomeUnknown(500, "etcdserver: request is too large")


def _refused() -> None:
    raise Refused(422, "another policy says no")


async def test_an_unreadable_reservation_of_one_tenant_stops_nobodys_confirmation() -> None:
    stage = Stage()
    stage.leader.deaf = True
    meta = manifests.metadata("odd", "mallory", generation=1)
    spec = {"gpuClass": "h100", "units": 1, "end": "9999-12-31T23:59:59-10:00"}
    stage.kube.put("gpureservations", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})
    stage.leader.deaf = False
    stage.book()
    await stage.settle()
    assert stage.phase() == "Active"


async def test_the_younger_of_two_classes_with_one_label_value_decides_once_the_older_is_gone() -> None:
    stage = Stage()
    younger = manifests.a_class("h100-new", labelValue="h100")
    younger["metadata"]["creationTimestamp"] = "2026-12-01T10:00:00Z"
    stage.kube.put("gpuclasses", {**younger, "status": {"confirmations": 0}})
    stage.book(gpuClass="h100-new")
    await stage.settle()
    assert stage.phase() == "Pending"
    assert "h100, which is older and decides" in stage.reservation()["status"]["message"]
    stage.kube.remove("gpuclasses", "", "h100")
    await stage.settle()
    assert stage.phase() == "Active"
