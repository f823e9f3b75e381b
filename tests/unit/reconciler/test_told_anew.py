"""What a waiting pod says stays true: another reservation or another instant is written over the old one."""

from tests.unit.reconciler.stage import Stage

TEN, FOURTEEN = "2026-12-01T10:00:00Z", "2026-12-01T14:00:00Z"


def _said(stage: Stage) -> tuple[str, str]:
    annotations = stage.pod()["metadata"]["annotations"]
    return annotations["gpures.dev/held"], annotations["gpures.dev/held-until"]


async def test_a_pod_told_of_one_opening_hears_of_the_next_when_that_one_is_gone() -> None:
    stage = Stage()
    stage.book("first", start=TEN)
    stage.hold()
    await stage.advance(6)
    assert _said(stage)[1] == TEN
    stage.kube.remove("gpureservations", "alice", "first")
    stage.book("second", start=FOURTEEN)
    await stage.settle()
    sentence, until = _said(stage)
    assert "reservation second" in sentence
    assert until == FOURTEEN


async def test_a_pod_whose_full_reservation_is_extended_says_until_when() -> None:
    stage = Stage()
    stage.book(units=1)
    stage.hold("first")
    await stage.settle()
    stage.hold()
    await stage.advance(6)
    assert _said(stage)[1] == "2026-12-01T13:00:00Z"
    stage.change(duration="8h")
    await stage.settle()
    assert _said(stage)[1] == "2026-12-01T17:00:00Z"


async def test_the_column_counts_the_pods_that_wait_for_this_reservation_only() -> None:
    stage = Stage()
    stage.book("mine", start=TEN, pods={"matchLabels": {"user": "me"}})
    stage.book("other", start=FOURTEEN, pods={"matchLabels": {"user": "other"}})
    stage.hold("a", labels={"user": "me"})
    stage.hold("b", labels={"user": "me"})
    stage.hold("c", labels={"user": "other"})
    await stage.advance(6)
    assert stage.reservation("mine")["status"]["waitingPods"] == 2
    assert stage.reservation("other")["status"]["waitingPods"] == 1
