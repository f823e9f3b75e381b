"""Rounds of confirmation: what fits is promised once, however many believe that they lead."""

from typing import Any

import pytest

from common.domain import rounds
from common.domain.errors import ApiError, OutcomeUnknown, Refused
from reconciler.loops.confirming import AGAIN_AFTER, UNWRITABLE_AGAIN, confirm, restamp
from reconciler.queue import Kind, Work
from tests.support.builders import NINE
from tests.unit.reconciler.stage import Stage


async def test_a_booking_that_fits_is_confirmed_and_opens_at_once() -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    status = stage.reservation()["status"]
    assert status["phase"] == "Active"
    assert status["granted"] == {"start": "2026-12-01T09:00:00Z", "end": "2026-12-01T13:00:00Z", "units": 2}
    assert status["claims"] == {}


async def test_a_booking_that_does_not_fit_is_denied_with_the_first_slot_that_does() -> None:
    stage = Stage()
    stage.book("first", units=6)
    await stage.settle()
    stage.book("second", units=4)
    await stage.settle()
    status = stage.reservation("second")["status"]
    assert status["phase"] == "Denied"
    assert "granted" not in status
    assert "only 2 free from 09:00; first slot for 4 units × 4h: 2026-12-01 13:00 UTC" in status["message"]


async def test_of_fifty_at_once_for_the_last_three_units_exactly_three_are_confirmed() -> None:
    stage = Stage(gpus=3)
    for number in range(50):
        stage.book(f"r{number}", units=1)
    await stage.settle()
    phases = [stage.phase(f"r{number}") for number in range(50)]
    assert phases.count("Active") == 3
    assert phases.count("Denied") == 47


async def test_an_unknown_class_is_denied_with_a_suggestion() -> None:
    stage = Stage()
    stage.book(gpuClass="hl00")
    await stage.settle()
    assert stage.phase() == "Denied"
    assert 'did you mean "h100"' in stage.reservation()["status"]["message"]


async def test_nothing_is_denied_while_a_watch_is_stale() -> None:
    stage = Stage()
    stage.leader.is_fresh = False
    stage.book(units=100)
    await stage.settle()
    assert stage.phase() == "Pending"
    stage.leader.is_fresh = True
    await stage.advance(2)
    assert stage.phase() == "Denied"


async def test_a_leader_that_froze_before_the_counter_promises_nothing_once_its_successor_has() -> None:
    stage = Stage(gpus=2)
    successor = stage.join("b")
    stage.book("mine")
    stage.book("rival", namespace="bob")

    async def acts() -> None:
        await restamp(successor.world)
        await successor.settle()

    # The first leader has announced and looked; everything that its successor does falls before its swap.
    stage.kube.when("PATCH", "gpuclasses/h100/status", acts, body="confirmations")
    await stage.settle()
    assert sorted([stage.phase("mine"), stage.phase("rival", "bob")]) == ["Active", "Denied"]
    assert _promises(stage, "mine") + _promises(stage, "rival") == 1


async def test_a_leader_that_froze_after_the_counter_misses_because_its_announcement_was_stamped_anew() -> None:
    stage = Stage(gpus=2)
    successor = stage.join("b")
    stage.book("mine")

    async def acts() -> None:
        await restamp(successor.world)
        await successor.settle()

    stage.kube.when("PATCH", "gpuclasses/h100/status", acts, after=True, body="confirmations")
    await stage.settle()
    assert stage.phase("mine") == "Active"
    assert _promises(stage, "mine") == 1


def _promises(stage: Stage, name: str) -> int:
    """Accepted writes of Confirmed."""
    return sum(
        1
        for _, path, body in stage.kube.accepted
        if f"/{name}/status" in path and isinstance(body, dict) and body["status"].get("phase") == "Confirmed"
    )


async def test_a_granted_extension_moves_the_promise() -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    stage.change(duration="8h")
    await stage.settle()
    status = stage.reservation()["status"]
    assert status["granted"]["end"] == "2026-12-01T17:00:00Z"
    assert status["observedGeneration"] == 2


async def test_a_refused_extension_leaves_the_promise_and_says_how_far_it_could_go() -> None:
    stage = Stage(gpus=2)
    stage.book()
    stage.book("next", namespace="bob", start="2026-12-01T18:00:00Z", duration="2h")
    await stage.settle()
    stage.change(duration="11h")
    await stage.settle()
    status = stage.reservation()["status"]
    applied = next(c for c in status["conditions"] if c["type"] == "Applied")
    assert status["granted"]["end"] == "2026-12-01T13:00:00Z"
    assert applied["status"] == "False"
    assert applied["message"] == (
        "not extended to 20:00: 0 h100 free from 18:00 UTC; longest possible end 18:00; yours until 13:00 UTC as before"
    )


async def test_a_shrunk_reservation_is_shrunk_even_below_what_is_claimed() -> None:
    stage = Stage()
    stage.book(units=2)
    stage.hold("a")
    stage.hold("b")
    await stage.settle()
    stage.change(units=1)
    await stage.settle()
    status = stage.reservation()["status"]
    assert status["granted"]["units"] == 1
    assert len(status["claims"]) == 2


async def test_units_of_a_reservation_that_wishes_to_be_canceled_are_kept_until_its_phase_says_so() -> None:
    stage = Stage(gpus=2)
    stage.book()
    await stage.settle()
    stage.change(cancel=True)
    stage.book("rival", namespace="bob")
    # The round of confirmation comes first, the cancel after it.
    stage.leader.touched = {Work(Kind.CLASS, "", "h100"): None}
    await stage.settle()
    assert stage.phase("rival", "bob") == "Confirming"


@pytest.mark.parametrize("change", [{"note": "for the demo"}, {"pods": {"matchLabels": {"app": "hub"}}}])
async def test_a_change_that_alters_nothing_of_the_promise_takes_no_round(change: dict[str, Any]) -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    promised, rounds_before = stage.reservation()["status"]["granted"], _rounds(stage)
    stage.change(**change)
    await stage.settle()
    status = stage.reservation()["status"]
    assert (status["observedGeneration"], status["granted"]) == (2, promised)
    assert _rounds(stage) == rounds_before


async def test_an_extension_that_was_refused_is_withdrawn_without_a_round() -> None:
    stage = Stage(gpus=2)
    stage.book()
    stage.book("next", namespace="bob", start="2026-12-01T18:00:00Z", duration="2h")
    await stage.settle()
    stage.change(duration="11h")
    await stage.settle()
    rounds_before = _rounds(stage)
    stage.change(duration="4h")
    await stage.settle()
    applied = next(c for c in stage.reservation()["status"]["conditions"] if c["type"] == "Applied")
    assert applied["status"] == "True"
    assert _rounds(stage) == rounds_before


async def test_one_of_another_namespace_does_not_wait_for_the_hundreds_before_it() -> None:
    stage = Stage(gpus=400)
    for number in range(300):
        stage.book(f"r{number:03}", units=1)
    stage.book("one", namespace="bob")
    class_work = Work(Kind.CLASS, "", "h100")
    stage.leader.touched.clear()
    await confirm(stage.leader.world, stage.leader.state.classes["h100"])
    assert stage.phase("one", "bob") == "Confirmed"
    assert [stage.phase(f"r{number:03}") for number in range(300)].count("Confirmed") == 199
    assert class_work in stage.leader.touched


async def test_what_came_while_the_webhook_was_down_is_denied_beyond_the_limit_of_the_namespace() -> None:
    stage = Stage(spec={"limits": {"maxReservationsPerNamespace": 2}})
    for number in range(3):
        stage.book(f"r{number}", units=1)
    stage.book("other", namespace="bob", units=1)
    await stage.settle()
    assert [stage.phase(f"r{number}") for number in range(3)] == ["Active", "Active", "Denied"]
    assert stage.phase("other", "bob") == "Active"
    told = "namespace alice has 2 live h100 reservations, maxReservationsPerNamespace is 2"
    assert stage.reservation("r2")["status"]["message"] == told


def _fails(stage: Stage, body: str = "", *, times: int = 1, error: ApiError | None = None) -> None:
    """The next writes of a reservation's status are not answered, or end with `error`."""

    def fail() -> None:
        raise error or OutcomeUnknown(0, "cut")

    for _ in range(times):
        stage.kube.when("PATCH", "gpureservations/[^/]+/status", fail, body=body)


@pytest.mark.parametrize("body", ["", '"Confirmed"'], ids=["announced", "judged"])
async def test_a_round_of_which_nothing_was_stored_is_begun_anew_later_and_not_at_once(body: str) -> None:
    stage = Stage(gpus=400)
    for number in range(rounds.MOST_NEW + 1):
        stage.book(f"r{number:03}", units=1)
    stage.leader.touched.clear()
    _fails(stage, body, times=rounds.MOST_NEW)
    await confirm(stage.leader.world, stage.leader.state.classes["h100"])
    assert Work(Kind.CLASS, "", "h100") not in stage.leader.touched
    assert stage.leader.world.agenda.pop_due(NINE) == []
    assert stage.leader.world.agenda.pop_due(NINE + UNWRITABLE_AGAIN) != []


@pytest.mark.parametrize("error", [OutcomeUnknown(504, "late"), Refused(403, "not now")])
async def test_a_change_whose_acknowledgement_was_not_stored_is_acknowledged_later(error: ApiError) -> None:
    stage = Stage()
    stage.book()
    await stage.settle()
    stage.change(note="for the demo")
    _fails(stage, "observedGeneration", error=error)
    await stage.settle()
    assert stage.reservation()["status"]["observedGeneration"] == 1
    await stage.advance(UNWRITABLE_AGAIN.total_seconds())
    assert stage.reservation()["status"]["observedGeneration"] == 2


@pytest.mark.parametrize("error", [OutcomeUnknown(504, "late"), Refused(403, "not now")])
async def test_a_verdict_that_cannot_be_written_is_tried_once_a_second(error: ApiError) -> None:
    """What announces it is a change too, and calls for the next round."""
    stage = Stage()
    stage.book()
    _fails(stage, '"Confirmed"', times=3, error=error)
    for tried in (1, 2, 3):
        await stage.settle()
        assert (stage.phase(), _rounds(stage)) == ("Confirming", tried)
        stage.clock.advance(AGAIN_AFTER.total_seconds())
    await stage.settle()
    assert stage.phase() == "Active"


def _rounds(stage: Stage) -> int:
    """The class's counter."""
    return int(stage.kube.get("gpuclasses", "", "h100")["status"]["confirmations"])
