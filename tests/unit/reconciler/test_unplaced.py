"""What was let in and never placed is deleted when its guarantee has ended, and nothing else ever is."""

from typing import Any

from reconciler.queue import Kind, Work
from tests.support import manifests
from tests.unit.reconciler.stage import Stage
from tests.unit.reconciler.test_telling_owners import events, owned

HOUR_S = 3600


async def let_in(stage: Stage, **spec: Any) -> None:
    """A pod under a reservation of one hour."""
    stage.book(**{"duration": "1h", **spec})
    owned(stage, "trainer-0")
    await stage.settle()
    assert stage.admitted()


def opened(token: str) -> dict[str, Any]:
    """A pod that was let in under `sprint`."""
    toleration = {"key": "gpu-class-reservation", "operator": "Equal", "value": "h100", "effect": "NoSchedule"}
    notes = {"gpures.dev/claim": token, "galends/booking-reference": "sprint"}
    return manifests.a_pod(annotations=notes, spec={"tolerations": [toleration]})


def deletions(stage: Stage) -> list[str]:
    return [path for method, path, _ in stage.kube.accepted if method == "DELETE" and "/pods/" in path]


async def test_a_pod_that_no_node_took_goes_at_the_end_of_its_guarantee_and_not_before() -> None:
    stage = Stage()
    await let_in(stage)
    await stage.advance(HOUR_S - 0.001)
    assert not stage.gone()
    await stage.advance(0.001)
    assert stage.gone()


async def test_it_is_deleted_by_uid_and_version() -> None:
    stage = Stage()
    await let_in(stage)
    meta = stage.pod()["metadata"]
    await stage.advance(HOUR_S)
    (body,) = [body for method, path, body in stage.kube.accepted if method == "DELETE" and "/pods/" in path]
    assert body["preconditions"] == {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}


async def test_the_pod_and_its_owner_are_told_why() -> None:
    stage = Stage()
    await let_in(stage)
    await stage.advance(HOUR_S)
    told = [each for each in await events(stage, 3) if each[2] == "NotPlaced"]
    assert told == [("Job", "train", "NotPlaced"), ("Pod", "trainer-0", "NotPlaced")]
    notes = {body["note"] for (plural, _, _), body in stage.kube.objects.items() if plural == "events"}
    assert (
        "no node took pod trainer-0 (see its FailedScheduling Events) before its guarantee ended: reservation sprint "
        "is over since 2026-12-01 10:00 UTC; deleted, or it would start outside your window; Job/train makes a new "
        "one, which waits for an open reservation"
    ) in notes


async def test_a_pod_that_a_node_took_runs_on() -> None:
    stage = Stage()
    await let_in(stage)
    stage.place()
    await stage.advance(HOUR_S)
    assert stage.phase() == "Ended"
    assert deletions(stage) == []


async def test_a_pod_of_a_prolonged_reservation_keeps_its_place_until_the_new_end() -> None:
    stage = Stage()
    await let_in(stage)
    stage.change(duration="2h")
    await stage.settle()
    await stage.advance(HOUR_S)
    assert not stage.gone()
    await stage.advance(HOUR_S)
    assert stage.gone()


async def test_a_pod_goes_when_its_reservation_is_cancelled() -> None:
    stage = Stage()
    await let_in(stage)
    stage.change(cancel=True)
    await stage.settle()
    assert stage.gone()


async def test_a_pod_goes_when_its_reservation_is_deleted() -> None:
    stage = Stage()
    await let_in(stage)
    stage.kube.remove("gpureservations", "alice", "sprint")
    await stage.settle()
    assert stage.gone()


async def test_a_pod_that_is_bound_while_we_look_stays() -> None:
    stage = Stage()
    await let_in(stage)
    stage.kube.when("DELETE", "pods/trainer-0", stage.place)
    await stage.advance(HOUR_S)
    assert not stage.gone()
    assert deletions(stage) == []
    assert await events(stage, 1) == [("Pod", "trainer-0", "RuntimeGuaranteed")]


async def test_a_pod_that_anybody_else_wrote_meanwhile_goes_at_the_second_look() -> None:
    stage = Stage()
    await let_in(stage)

    def writes() -> None:
        stage.kube.put("pods", stage.pod())

    stage.kube.when("DELETE", "pods/trainer-0", writes)
    await stage.advance(HOUR_S)
    assert stage.gone()


async def test_a_claim_that_the_watch_has_not_shown_yet_keeps_its_pod() -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    stage.leader.deaf = True
    stored = stage.reservation()
    claimed = {**stored["status"], "claims": {"1796115600-1-abc": 1}}
    stage.kube.put("gpureservations", {**stored, "status": claimed})
    stage.leader.deaf = False
    stage.kube.put("pods", opened("1796115600-1-abc"))
    await stage.settle()
    assert not stage.gone()


async def test_nothing_is_deleted_while_a_watch_is_stale() -> None:
    stage = Stage()
    await let_in(stage)
    stage.leader.is_fresh = False
    await stage.advance(HOUR_S)
    assert not stage.gone()
    stage.leader.is_fresh = True
    await stage.advance(30)
    assert stage.gone()


async def test_nothing_is_deleted_while_a_reservation_cannot_be_read() -> None:
    stage = Stage()
    await let_in(stage)
    unreadable = {"metadata": manifests.metadata("odd", "alice"), "spec": {"gpuClass": 7}, "status": {}}
    stage.kube.objects["gpureservations", "alice", "odd"] = unreadable
    await stage.advance(HOUR_S)
    assert not stage.gone()
    del stage.kube.objects["gpureservations", "alice", "odd"]
    await stage.advance(30)
    assert stage.gone()


async def test_a_class_that_was_set_to_observe_a_moment_ago_touches_nothing() -> None:
    stage = Stage()
    await let_in(stage)

    def observe() -> None:
        stage.leader.deaf = True
        stored = stage.kube.get("gpuclasses", "", "h100")
        stage.kube.put("gpuclasses", {**stored, "spec": {**stored["spec"], "mode": "Observe"}})
        stage.leader.deaf = False

    stage.kube.when("GET", "gpuclasses/h100$", observe)
    await stage.advance(HOUR_S)
    assert not stage.gone()


async def test_a_pod_that_was_opened_as_its_reservation_went_goes_as_well() -> None:
    stage = Stage()
    stage.kube.put("pods", opened("1796115600-1-abc"))
    await stage.settle()
    assert stage.gone()


async def test_pods_that_were_left_go_when_the_class_is_enforced_again() -> None:
    stage = Stage()
    await let_in(stage)
    stored = stage.kube.get("gpuclasses", "", "h100")
    for generation, mode in ((2, "Observe"), (3, "Enforce")):
        meta = {**stage.kube.get("gpuclasses", "", "h100")["metadata"], "generation": generation}
        stage.kube.put("gpuclasses", {**stored, "metadata": meta, "spec": {**stored["spec"], "mode": mode}})
        await stage.advance(HOUR_S)
        assert stage.gone() == (mode == "Enforce")


async def test_of_many_such_pods_fifty_go_each_second() -> None:
    stage = Stage(gpus=120)
    stage.book(units=120, duration="1h")
    for number in range(120):
        stage.hold(f"p{number:03}")
    await stage.settle()
    gone = []
    await stage.advance(HOUR_S)
    for _ in range(3):
        gone.append(len(deletions(stage)))
        await stage.advance(1)
    assert gone == [50, 100, 120]


async def test_a_pod_whose_reservation_is_known_to_hold_its_claim_is_not_looked_at_with_each_event() -> None:
    stage = Stage()
    await let_in(stage)
    stage.kube.put("pods", stage.pod())
    assert Work(Kind.UNPLACED, "alice", "h100") not in stage.leader.touched
    stage.kube.put("pods", opened("1796115600-1-unknown"))
    assert Work(Kind.UNPLACED, "alice", "h100") in stage.leader.touched


async def test_a_clock_that_was_set_back_delays_no_deletion() -> None:
    stage = Stage()
    await let_in(stage)
    await stage.advance(HOUR_S)
    stage.clock.advance(-1800)
    for number in range(60):
        stage.kube.put("pods", {**opened(f"1796115600-1-{number}"), "metadata": _named(f"p{number}", number)})
    await stage.settle()
    assert len(deletions(stage)) == 51
    await stage.advance(1)
    assert len(deletions(stage)) == 61


async def test_a_namespace_whose_turn_has_not_come_is_not_read_in_vain() -> None:
    stage = Stage()
    for number in range(60):
        stage.kube.put("pods", {**opened(f"1796115600-1-{number}"), "metadata": _named(f"p{number}", number)})
    for number in range(9):
        meta = _named("late", number, f"bob-{number}")
        stage.kube.put("pods", {**opened(f"1796115600-1-{number}"), "metadata": meta})
    await stage.settle()
    assert len([path for _, path, _ in stage.kube.requests if path.endswith("/gpureservations")]) == 1


async def test_a_pod_goes_when_another_reservation_has_come_under_the_name_unseen() -> None:
    """The watch was away meanwhile: what it shows is one change, of one object into another one."""
    stage = Stage()
    await let_in(stage)
    stage.leader.deaf = True
    stage.kube.remove("gpureservations", "alice", "sprint")
    stage.leader.deaf = False
    stage.book(duration="1h")
    await stage.settle()
    assert stage.gone()


def _named(name: str, number: int, namespace: str = "alice") -> dict[str, Any]:
    claim = {"gpures.dev/claim": f"1796115600-1-{number}"}
    return manifests.metadata(name, namespace, labels={"gpu-class": "h100"}, annotations=claim)
