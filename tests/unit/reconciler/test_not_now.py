"""Nothing is decided while the API server's time is disputed, or while caches tell of a history that has ended (R4)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from tests.support import manifests
from tests.unit.reconciler.stage import Stage

MINTED = 1796115600  # 2026-12-01 09:00:00 UTC

UNDECIDED = ("Pending", "Confirming")

Doubt = Callable[[Stage], None]


def _disputed(stage: Stage) -> None:
    stage.clock.set_uncertainty(timedelta(hours=2))


def _another_history(stage: Stage) -> None:
    stage.leader.is_synced = False


DOUBTS = [_disputed, _another_history]


def _sure_again(stage: Stage) -> None:
    stage.clock.set_uncertainty(timedelta(milliseconds=20))
    stage.leader.is_synced = True


@contextmanager
def _nothing_written(stage: Stage) -> Iterator[None]:
    before = dict(stage.kube.objects)
    yield
    assert stage.kube.objects == before


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_no_reservation_is_confirmed_until_it_is_over(doubt: Doubt) -> None:
    stage = Stage()
    stage.book()
    doubt(stage)
    await stage.advance(3600)
    assert stage.phase() in UNDECIDED
    _sure_again(stage)
    await stage.settle()
    assert stage.phase() == "Active"


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_no_reservation_is_denied_until_it_is_over(doubt: Doubt) -> None:
    stage = Stage()
    stage.book(units=9)
    doubt(stage)
    await stage.settle()
    assert stage.phase() in UNDECIDED
    _sure_again(stage)
    await stage.settle()
    assert stage.phase() == "Denied"


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_no_reservation_ends_and_none_is_removed_until_it_is_over(doubt: Doubt) -> None:
    stage = Stage(spec={"keepFinished": "1h"})
    stage.book()
    await stage.settle()
    doubt(stage)
    with _nothing_written(stage):
        await stage.advance(5 * 3600)
    _sure_again(stage)
    await stage.settle()
    assert stage.phase() == "Ended"
    doubt(stage)
    with _nothing_written(stage):
        await stage.advance(2 * 3600)
    _sure_again(stage)
    await stage.settle()
    assert ("gpureservations", "alice", "sprint") not in stage.kube.objects


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_no_pod_is_let_in_until_it_is_over(doubt: Doubt) -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    doubt(stage)
    stage.hold()
    with _nothing_written(stage):
        await stage.settle()
    _sure_again(stage)
    await stage.settle()
    assert stage.admitted()


@pytest.mark.parametrize("doubt", DOUBTS)
async def test_no_claim_is_dropped_until_it_is_over(doubt: Doubt) -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    stored = stage.reservation()
    claims = {f"{MINTED}-1-abc": 1}
    stage.kube.put("gpureservations", {**stored, "status": {**stored["status"], "claims": claims}})
    doubt(stage)
    with _nothing_written(stage):
        await stage.advance(120)
    _sure_again(stage)
    await stage.settle()
    assert stage.reservation()["status"]["claims"] == {}


async def test_a_clock_that_was_set_back_silences_no_column() -> None:
    stage = Stage()
    stage.book(start="2026-12-01T10:00:00Z", duration="1h")
    await stage.settle()
    stage.hold("trainer-0")
    await stage.settle()
    assert stage.reservation()["status"]["waitingPods"] == 1
    stage.clock.advance(-600)
    stage.hold("trainer-1")
    await stage.settle()
    assert stage.reservation()["status"]["waitingPods"] == 2


async def test_a_pod_that_was_over_in_a_history_that_has_ended_keeps_its_claim() -> None:
    """Its end was undone with that history: only a fresh list may tell now that nobody stands behind the claim."""
    stage = Stage()
    stage.book()
    token = f"{MINTED}-1-abc"
    stage.kube.put("pods", manifests.a_pod("ends", annotations={"gpures.dev/claim": token}))
    await stage.settle()
    stage.kube.remove("pods", "alice", "ends")
    stage.leader.state.forget_all_finished()
    stored = stage.reservation()
    stage.leader.deaf = True
    stage.kube.put("pods", manifests.a_pod("ends", annotations={"gpures.dev/claim": token}))
    stage.leader.deaf = False
    stage.kube.put("gpureservations", {**stored, "status": {**stored["status"], "claims": {token: 1}}})
    await stage.advance(120)
    assert stage.reservation()["status"]["claims"] == {token: 1}
