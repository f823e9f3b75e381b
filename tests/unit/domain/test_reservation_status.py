"""The columns of `kubectl get gpures`, and the condition AtRisk."""

from dataclasses import replace

import pytest

from common.domain import reservation_status
from common.domain.gpu_class import ClassUnits, GpuClass
from common.domain.reservation import Condition, Phase, Reservation
from common.domain.texts import Display
from common.domain.time import Instant
from tests.support.builders import NINE, a_class, a_pod, a_reservation, at

SHORT = a_class(units=ClassUnits(physical=8, schedulable=2, reserved=4))
WELL = a_class(units=ClassUnits(physical=8, schedulable=8, reserved=4))
ACTIVE = a_reservation(units=4, phase=Phase.ACTIVE)


def summary(
    reservation: Reservation, *names: str, waiting: int = 0, gpu_class: GpuClass | None = WELL, now: Instant = NINE
) -> reservation_status.Summary:
    holders = [a_pod(name) for name in names]
    return reservation_status.summarise(reservation, holders, waiting, gpu_class, now, Display())


def risk(reservation: Reservation, gpu_class: GpuClass | None = SHORT, now: Instant = NINE) -> Condition | None:
    return reservation_status.at_risk(reservation, gpu_class, now, Display())


def condition(type_: str, status: str, reason: str, since: Instant = NINE) -> Condition:
    return Condition(type_, status, reason, f"message of {type_}", since)


def test_used_is_claimed_of_granted() -> None:
    assert summary(a_reservation(units=4, claims={"1-3-x": 3})).used == "3/4"


def test_without_a_promise_used_is_what_runs_on() -> None:
    assert summary(a_reservation(phase=Phase.ENDED, claims={"1-3-x": 3})).used == "3"
    assert summary(a_reservation(phase=Phase.DENIED)).used == ""


def test_three_holders_are_named_in_order_and_the_others_counted() -> None:
    assert summary(ACTIVE, "e", "d", "c", "b", "a").used_by == ("a", "b", "c", "+2")
    assert summary(ACTIVE, "b", "a").used_by == ("a", "b")


def test_pods_wait_for_promises_only() -> None:
    assert summary(ACTIVE, waiting=3).waiting_pods == 3
    assert summary(a_reservation(phase=Phase.ENDED), waiting=3).waiting_pods == 0


def test_missing_nodes_put_an_active_reservation_at_risk() -> None:
    found = risk(ACTIVE)
    assert found is not None
    assert (found.status, found.reason, found.since) == ("True", "AtRisk", NINE)
    assert found.message.startswith("2 of your 4 h100 may be missing since 09:00 UTC")


def test_no_more_is_at_risk_than_was_promised() -> None:
    found = risk(a_reservation(units=1, phase=Phase.ACTIVE))
    assert found is not None
    assert found.message.startswith("1 of your 1 h100")


def test_unreserved_pods_on_ready_nodes_put_promises_at_risk() -> None:
    crowded = a_class(units=ClassUnits(physical=8, schedulable=5, unreserved=3, reserved=4))
    found = risk(ACTIVE, crowded)
    assert found is not None
    assert found.message.startswith("2 of your 4")


@pytest.mark.parametrize(
    ("reservation", "gpu_class"),
    [(a_reservation(units=4), SHORT), (ACTIVE, WELL), (ACTIVE, None), (ACTIVE, a_class(free=None))],
)
def test_what_is_not_open_or_not_known_is_not_at_risk(reservation: Reservation, gpu_class: GpuClass | None) -> None:
    assert risk(reservation, gpu_class) is None


def test_the_risk_keeps_the_instant_at_which_it_began() -> None:
    before = replace(ACTIVE, conditions=(condition("AtRisk", "True", "AtRisk", at(8, 41)),))
    found = risk(before)
    assert found is not None
    assert found.since == at(8, 41)
    assert "since 08:41 UTC" in found.message


def test_a_risk_of_yesterday_is_told_with_its_date() -> None:
    before = replace(ACTIVE, conditions=(condition("AtRisk", "True", "AtRisk", at(8, 41)),))
    found = risk(before, now=at(33))
    assert found is not None
    assert "since 2026-12-01 08:41 UTC" in found.message


def test_the_risk_is_taken_back_when_the_nodes_are_back() -> None:
    before = replace(ACTIVE, conditions=(condition("AtRisk", "True", "AtRisk", at(8)),))
    found = risk(before, WELL)
    assert found is not None
    assert (found.status, found.since) == ("False", NINE)
    assert risk(replace(ACTIVE, conditions=(found,)), WELL) == found


def test_the_headline_is_the_most_important_condition() -> None:
    confirmed = condition("Confirmed", "True", "Fits")
    refused = condition("Applied", "False", "NoCapacity")
    assert summary(replace(ACTIVE, conditions=(confirmed,))).reason == "Fits"
    assert summary(replace(ACTIVE, conditions=(confirmed, refused))).reason == "NoCapacity"
    assert summary(replace(ACTIVE, conditions=(confirmed, refused)), gpu_class=SHORT).reason == "AtRisk"


def test_a_change_that_was_applied_or_is_being_judged_is_no_headline() -> None:
    confirmed = condition("Confirmed", "True", "Fits")
    for status in ("True", "Unknown"):
        applied = condition("Applied", status, "Applying")
        assert summary(replace(ACTIVE, conditions=(confirmed, applied))).reason == "Fits"


def test_a_denial_stays_the_headline() -> None:
    denied = condition("Confirmed", "False", "NoCapacity")
    assert summary(a_reservation(phase=Phase.DENIED, conditions=(denied,))).reason == "NoCapacity"


def test_a_finished_reservation_keeps_what_it_ended_with() -> None:
    ended = a_reservation(
        phase=Phase.ENDED, reason="Ended", message="m", conditions=(condition("Confirmed", "True", "Fits"),)
    )
    assert (summary(ended).reason, summary(ended).message) == ("Ended", "m")


def test_a_summary_that_is_written_differs_from_nothing() -> None:
    made = summary(ACTIVE, "a", waiting=1, gpu_class=SHORT)
    assert made.differs_from(ACTIVE)
    assert made.at_risk is not None
    written = replace(
        ACTIVE,
        used=made.used,
        used_by=made.used_by,
        waiting_pods=made.waiting_pods,
        reason=made.reason,
        message=made.message,
        conditions=(made.at_risk,),
    )
    assert not made.differs_from(written)
