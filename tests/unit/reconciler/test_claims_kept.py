"""No claim of a live pod is dropped, no claim without a pod is kept (R7), no late write hurts after a cancel."""

import pytest

from common.domain.errors import Conflict
from tests.support import manifests
from tests.unit.reconciler.stage import Stage

MINTED = 1796115600  # 2026-12-01 09:00:00 UTC


def _claim(stage: Stage, token: str) -> None:
    stored = stage.reservation()
    claims = {**stored["status"]["claims"], token: 1}
    stage.kube.put("gpureservations", {**stored, "status": {**stored["status"], "claims": claims}})


async def test_a_claim_without_a_pod_stands_for_a_minute_and_then_goes_and_pauses_the_fast_path() -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    _claim(stage, f"{MINTED}-1-abc")
    await stage.advance(59)
    assert stage.reservation()["status"]["claims"]
    await stage.advance(2)
    assert stage.reservation()["status"]["claims"] == {}
    assert stage.reservation()["status"]["fastPathUntil"] == "2026-12-01T09:06:01Z"


async def test_a_stalled_pod_watch_drops_no_claim_of_a_stored_pod() -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    token = f"{MINTED}-1-abc"
    stage.leader.deaf = True
    stage.kube.put("pods", manifests.a_pod("unseen", annotations={"gpures.dev/claim": token}))
    stage.leader.deaf = False
    _claim(stage, token)
    await stage.advance(120)
    assert stage.reservation()["status"]["claims"] == {token: 1}


async def test_a_claim_of_a_waiting_pod_is_withdrawn_pod_first_when_its_reservation_is_canceled() -> None:
    stage = Stage()
    stage.book(units=1)
    await stage.settle()
    stage.kube.when("PATCH", "pods/trainer-0$", _conflict)
    stage.hold()
    stage.leader.touched.clear()
    uid = stage.pod()["metadata"]["uid"]
    _claim(stage, f"{MINTED}-1-{uid}")
    stage.leader.touched.clear()
    version = stage.pod()["metadata"]["resourceVersion"]
    stage.change(cancel=True)
    stage.leader.touched = {w: None for w in stage.leader.touched if w.kind.name != "SLICE"}
    await stage.settle()
    assert stage.phase() == "Canceled"
    assert stage.reservation()["status"]["claims"] == {}
    assert stage.pod()["metadata"]["resourceVersion"] != version


def _conflict() -> None:
    raise Conflict(409, "somebody wrote the pod")


async def test_running_pods_are_untouched_by_cancel_and_their_claims_stand_until_they_end() -> None:
    stage = Stage()
    stage.book()
    stage.hold()
    await stage.settle()
    stage.place()
    before = stage.pod()
    stage.change(cancel=True)
    await stage.settle()
    assert stage.pod() == before
    assert len(stage.reservation()["status"]["claims"]) == 1
    stage.kube.remove("pods", "alice", "trainer-0")
    await stage.settle()
    assert stage.reservation()["status"]["claims"] == {}


async def test_a_finished_reservation_is_removed_once_its_class_keeps_it_no_longer() -> None:
    stage = Stage(spec={"keepFinished": "1h"})
    stage.book(duration="1h")
    await stage.settle()
    await stage.advance(3600)
    assert stage.phase() == "Ended"
    await stage.advance(3599)
    assert stage.phase() == "Ended"
    await stage.advance(1)
    with pytest.raises(KeyError):
        stage.reservation()
