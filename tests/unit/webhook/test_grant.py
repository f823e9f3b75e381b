"""What the table cannot show: tokens of late claims, claims in flight, and views that are behind."""

import asyncio
from dataclasses import replace
from datetime import timedelta

from common.domain import keys
from common.domain.errors import OutcomeUnknown
from common.domain.gpu_class import ClassUnits
from common.domain.reservation import Phase
from tests.support.builders import a_class, a_reservation, at, granted
from tests.support.manifests import a_pod
from tests.support.waiting import eventually
from tests.unit.webhook.scene import Scene, after, annotations, is_let_in, operations


async def test_a_late_claim_stays_with_the_held_pod_and_stands_in_the_end() -> None:
    scene = Scene(a_class(), claim_within_s=0.03)
    scene.book(a_reservation())
    scene.api.passing.clear()
    decision = await scene.grant(a_pod())
    token = annotations(after(a_pod(), decision))["gpures.dev/claim"]
    assert "under way" in annotations(after(a_pod(), decision))["gpures.dev/held"]
    scene.api.passing.set()
    await eventually(lambda: scene.stored().claims == {token: 1})


async def test_a_held_pod_carries_no_token_when_no_claim_can_stand() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation(claims={"a": 1, "b": 1}))
    assert "gpures.dev/claim" not in annotations(after(a_pod(), await scene.grant(a_pod())))


async def test_an_unknown_outcome_that_lands_is_one_claim() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation())
    scene.api.failures, scene.api.lands = [OutcomeUnknown(504, "gateway timeout")], True
    stored = after(a_pod(), await scene.grant(a_pod()))
    assert is_let_in(stored)
    assert scene.stored().claims == {annotations(stored)["gpures.dev/claim"]: 1}


async def test_claims_in_flight_count_as_taken() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation("first", units=1, end=12, start=8, granted=granted(1, 8, 13)))
    scene.book(a_reservation("second", units=1, granted=granted(1, 9, 14)))
    scene.api.passing.clear()
    tasks = [asyncio.create_task(scene.grant(a_pod())) for _ in range(3)]
    await eventually(lambda: scene.api.in_flight == 2)
    scene.api.passing.set()
    stored = [after(a_pod(), decision) for decision in await asyncio.gather(*tasks)]
    assert [is_let_in(pod) for pod in stored] == [True, True, False]
    assert [annotations(pod)["galends/booking-reference"] for pod in stored[:2]] == ["first", "second"]
    assert len(scene.api.patches) == 2


async def test_a_burst_never_claims_more_than_was_granted() -> None:
    scene = Scene(a_class(free=None))
    scene.book(a_reservation(units=8))
    decisions = await asyncio.gather(*(scene.grant(a_pod()) for _ in range(40)))
    assert sum(is_let_in(after(a_pod(), decision)) for decision in decisions) == 8
    assert scene.stored().claimed == 8


async def test_free_units_on_nodes_are_those_counted_less_what_was_claimed_since() -> None:
    counted = ClassUnits(physical=8, schedulable=8, claimed=2, free=1, largest_block=1)
    scene = Scene(a_class(units=counted))
    scene.book(a_reservation(units=8, claims={"before": 2}))
    assert is_let_in(after(a_pod(), await scene.grant(a_pod())))
    assert (await scene.grant(a_pod())).reason == "WaitingForUnits"


async def test_a_pod_that_asks_more_than_any_node_has_free_waits_for_units() -> None:
    scene = Scene(a_class(units=ClassUnits(physical=8, schedulable=8, free=4, largest_block=2)))
    scene.book(a_reservation(units=8))
    assert (await scene.grant(a_pod(gpus=4))).reason == "WaitingForUnits"


async def test_units_that_nobody_counted_hold_nothing_back() -> None:
    scene = Scene(a_class(free=None))
    scene.book(a_reservation())
    assert is_let_in(after(a_pod(), await scene.grant(a_pod())))


async def test_a_full_reservation_sends_the_pod_to_the_next() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation("a", end=13, version="9", claims={"x": 2}), seen=a_reservation("a", version="1"))
    scene.book(a_reservation("b", granted=granted(2, 9, 14)))
    stored = after(a_pod(), await scene.grant(a_pod()))
    assert annotations(stored)["galends/booking-reference"] == "b"


async def test_a_reservation_that_vanished_ends_in_a_hold() -> None:
    scene = Scene(a_class())
    scene.apply(a_reservation())
    decision = await scene.grant(a_pod())
    assert decision.reason == "Undecided"
    assert "changing" in decision.response.warnings[0]


async def test_the_promise_in_the_answer_counts_and_not_the_one_in_the_view() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation(version="9", granted=granted(2, 9, 18)), seen=a_reservation(version="1"))
    stored = after(a_pod(), await scene.grant(a_pod()))
    assert annotations(stored)["galends/guaranteed-until"] == "2026-12-01T18:00:00Z"


async def test_a_promise_that_moved_away_holds_the_pod_with_its_claim() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation(version="9", granted=granted(2, 15, 18)), seen=a_reservation(version="1"))
    decision = await scene.grant(a_pod())
    assert decision.reason == "Undecided"
    assert annotations(after(a_pod(), decision))["gpures.dev/claim"] in scene.stored().claims


async def test_a_cancelled_reservation_takes_no_claim_however_late_the_view() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation(version="9", phase=Phase.CANCELED), seen=a_reservation(version="1"))
    decision = await scene.grant(a_pod())
    assert decision.reason == "NoReservation"
    assert scene.stored().claims == {}


async def test_nothing_is_claimed_for_a_caller_who_is_almost_gone() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation())
    decision = await scene.grant(a_pod(), within_s=0.0)
    assert decision.reason == "Undecided"
    assert scene.api.patches == []


async def test_without_a_known_time_only_timeless_reasons_are_given() -> None:
    scene = Scene(a_class())
    scene.clock.set_uncertainty(timedelta.max)
    scene.book(a_reservation(start=14, end=18))
    assert (await scene.grant(a_pod())).reason == "Undecided"
    assert (await scene.grant(a_pod(gpus=9))).reason == "ReservationTooSmall"
    assert (await scene.grant(a_pod(namespace="bob"), namespace="bob")).reason == "NoReservation"


async def test_a_dry_run_answers_as_the_real_one() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation(units=1))
    dry = operations(await scene.grant(a_pod(), dry_run=True))
    real = operations(await scene.grant(a_pod()))
    assert [operation["path"] for operation in dry] == [operation["path"] for operation in real]


async def test_the_pods_of_another_namespace_find_nothing() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation())
    assert (await scene.grant(a_pod(namespace="bob"), namespace="bob")).reason == "NoReservation"


async def test_the_stored_pod_is_the_same_with_and_without_the_hold_policy() -> None:
    scene = Scene(a_class())
    scene.book(replace(a_reservation(), granted=granted(2, 14, 18)))
    plain, gated = a_pod(), a_pod(gates=("gpures.dev/hold",), annotations={"gpures.dev/held": "Undecided: x"})
    assert after(plain, await scene.grant(plain)) == after(gated, await scene.grant(gated))


async def test_the_guarantee_ends_with_the_window() -> None:
    scene = Scene(a_class(display_name="H100"))
    scene.book(a_reservation())
    notes = annotations(after(a_pod(), await scene.grant(a_pod())))
    assert notes["galends/pod-runtime-limit-seconds"] == str(int((at(13) - at(12)).total_seconds()))
    assert notes["galends/gpu-class-name"] == "H100"


async def test_a_pod_that_would_rather_not_exist_than_wait_is_refused_with_the_sentence_of_the_hold() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation(start=14, end=18))
    rather_not = a_pod(annotations={keys.IF_HELD: keys.REFUSE})
    held, refused = await scene.grant(a_pod()), await scene.grant(rather_not)
    sentence = "held: reservation sprint (2 × h100) opens 2026-12-01 14:00 UTC, in 2 h"
    assert held.response.warnings == (f"{sentence}; the pod starts by itself, nothing to do",)
    assert refused.response.status is not None
    assert refused.response.status.message == f"refused instead of {sentence}"
