"""Held pods are let in when the window opens or room appears, on one claim each, in one patch each."""

import asyncio

import pytest

from tests.unit.reconciler.stage import Stage

SOON = "2026-12-01T10:00:00Z"


async def test_a_held_pod_is_let_in_by_one_claim_and_one_patch() -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    before = len(stage.kube.writes())
    stage.hold()
    await stage.settle()
    writes = [(method, path) for method, path, _ in stage.kube.writes()[before:] if "pods" in path or "claims" in path]
    assert stage.admitted()
    assert writes == [("PATCH", "/api/v1/namespaces/alice/pods/trainer-0")]
    assert list(stage.reservation()["status"]["claims"].values()) == [1]


async def test_a_pod_before_its_window_is_released_at_the_instant_and_not_before() -> None:
    stage = Stage()
    stage.book(start=SOON)
    stage.hold()
    await stage.settle()
    await stage.advance(3599)
    assert not stage.admitted()
    await stage.advance(1)
    assert stage.admitted()
    assert stage.phase() == "Active"


async def test_the_reason_is_written_after_five_seconds_and_goes_with_the_gate() -> None:
    stage = Stage()
    stage.book(start=SOON)
    stage.hold()
    await stage.advance(4)
    assert "conditions" not in stage.pod().get("status", {})
    await stage.advance(1)
    held = next(c for c in stage.pod()["status"]["conditions"] if c["type"] == "gpures.dev/Held")
    assert held["reason"] == "WaitingForReservation"
    assert stage.pod()["metadata"]["annotations"]["gpures.dev/held-until"] == SOON
    await stage.advance(3600)
    assert stage.admitted()
    assert not [c for c in stage.pod()["status"]["conditions"] if c["type"] == "gpures.dev/Held"]


async def test_the_same_reason_is_written_once() -> None:
    stage = Stage()
    stage.book(units=1)
    stage.hold("first")
    await stage.settle()
    stage.hold("second")
    await stage.advance(6)
    told = len(stage.kube.writes("pods/second/status"))
    for name in ("x", "y", "z"):
        stage.hold(name)
        await stage.settle()
    assert told == 1
    assert len(stage.kube.writes("pods/second/status")) == 1


async def test_a_finished_pod_lets_the_next_one_in() -> None:
    stage = Stage()
    stage.book(units=1)
    stage.hold("first")
    await stage.settle()
    stage.hold("second")
    await stage.settle()
    assert not stage.admitted("second")
    stage.kube.put("pods", {**stage.pod("first"), "status": {"phase": "Succeeded"}})
    await stage.settle()
    assert stage.admitted("second")
    assert len(stage.reservation()["status"]["claims"]) == 1


async def test_a_held_pod_that_is_deleted_between_claim_and_opening_gives_its_unit_back() -> None:
    stage = Stage()
    stage.book(units=1)
    await stage.settle()
    stage.kube.when("PATCH", "pods/first$", lambda: stage.kube.remove("pods", "alice", "first"))
    stage.hold("first")
    await stage.settle()
    assert stage.reservation()["status"]["claims"] == {}
    stage.hold("second")
    await stage.settle()
    assert stage.admitted("second")


async def test_a_claim_that_a_fallen_leader_left_is_used_and_not_made_twice() -> None:
    stage = Stage()
    stage.book(units=2)
    await stage.settle()
    stage.kube.when("PATCH", "pods/trainer-0$", _die)
    stage.hold()
    with pytest.raises(asyncio.CancelledError):
        await stage.settle()
    successor = stage.join("b")
    await successor.settle()
    assert stage.admitted()
    assert len(stage.reservation()["status"]["claims"]) == 1


def _die() -> None:
    raise asyncio.CancelledError


async def test_a_process_whose_lease_ran_out_writes_nothing() -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    stage.leader.leading = False
    before = len(stage.kube.writes())
    stage.hold()
    with pytest.raises(AssertionError, match="does not settle"):
        await stage.settle()
    assert len(stage.kube.writes()) == before
    assert not stage.admitted()


async def test_pods_of_a_class_that_no_longer_holds_are_let_go_without_the_toleration() -> None:
    stage = Stage()
    stage.hold()
    stage.kube.put("gpuclasses", {**stage.kube.get("gpuclasses", "", "h100"), "spec": {"mode": "Observe"}})
    await stage.settle()
    spec = stage.pod()["spec"]
    assert not spec.get("schedulingGates")
    assert not spec.get("tolerations")


async def test_pods_are_not_opened_onto_nodes_that_are_not_ready() -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    node = stage.kube.get("nodes", "", "node-1")
    stage.kube.put("nodes", {**node, "spec": {**node["spec"], "unschedulable": True}})
    stage.hold()
    await stage.advance(6)
    assert not stage.admitted()
    assert stage.pod()["metadata"]["annotations"]["gpures.dev/held"].startswith("WaitingForUnits: ")
    stage.kube.put("nodes", node)
    await stage.advance(1)
    assert stage.admitted()
