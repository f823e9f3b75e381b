"""A wish that nothing was promised for: limits first, then units over time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from common.domain import confirmation
from common.domain.confirmation import Judgement, Verdict
from common.domain.gpu_class import GpuClass, Limits
from common.domain.reservation import Granted, Phase, Reservation, Wish
from common.domain.texts import Display
from common.domain.time import Instant, Window
from tests.support.builders import HOUR, NINE, a_class, a_reservation, at, window

SECOND = timedelta(seconds=1)
UNLIMITED = Limits(max_duration=None, max_ahead=None)


def judged(
    wish: Wish,
    *others: Reservation,
    bookable: int = 4,
    now: Instant = NINE,
    gpu_class: GpuClass | None = None,
    display: Display | None = None,
    created: Instant | None = None,
) -> Verdict:
    asking = a_reservation("new", phase=Phase.CONFIRMING, wish=wish, created=created or now)
    return confirmation.judge(asking, gpu_class or a_class(), others, bookable, now, display or Display())


def wish(units: int = 2, **fields: Any) -> Wish:
    values: dict[str, Any] = {"gpu_class": "h100", "units": units, "start": at(9), "end": at(13)}
    return Wish(**(values | fields))


def limited(**limits: Any) -> GpuClass:
    return a_class(limits=Limits(**limits))


def test_what_fits_is_promised_as_it_was_asked() -> None:
    verdict = judged(wish())
    assert (verdict.reason, verdict.granted) == (Judgement.FITS, Granted(window(9, 13), 2))
    assert verdict.message == "2 × h100, 2026-12-01 09:00–13:00 UTC"


def test_without_a_start_it_begins_at_confirmation_to_the_second() -> None:
    verdict = judged(wish(start=None, end=None, duration=4 * HOUR), now=NINE + timedelta(milliseconds=700))
    assert verdict.granted == Granted(window(9, 13), 2)


@pytest.mark.parametrize("late", [SECOND, timedelta(minutes=5)])
def test_a_start_up_to_five_minutes_ago_is_now(late: timedelta) -> None:
    verdict = judged(wish(end=None, duration=HOUR), now=NINE + late)
    assert verdict.granted == Granted(Window(NINE + late, NINE + late + HOUR), 2)


def test_a_start_longer_ago_is_in_the_past() -> None:
    late = NINE + timedelta(minutes=5, seconds=1)
    verdict = judged(wish(), now=late, created=late)
    assert (verdict.reason, verdict.granted) == (Judgement.START_IN_PAST, None)
    assert "2026-12-01 09:00 UTC is in the past" in verdict.message


def test_nobody_is_denied_because_we_were_down_when_the_window_opened() -> None:
    verdict = judged(wish(), now=NINE + HOUR, created=NINE - HOUR)
    assert verdict.granted == Granted(window(10, 13), 2)


def test_a_wish_that_is_not_stored_yet_is_asked_now() -> None:
    verdict = judged(wish(), now=NINE + HOUR, created=datetime(1970, 1, 1, tzinfo=UTC))
    assert verdict.reason is Judgement.START_IN_PAST


@pytest.mark.parametrize("end", [at(9), at(8)])
def test_an_end_that_is_not_after_the_start_is_in_the_past(end: Instant) -> None:
    assert judged(wish(start=None, end=end)).reason is Judgement.START_IN_PAST


@pytest.mark.parametrize(
    ("limits", "asked", "reason", "said"),
    [
        ({"max_duration": 3 * HOUR}, wish(), Judgement.OVER_LIMIT, "4h asked, maxDuration is 3h"),
        (
            {"max_ahead": HOUR},
            wish(start=at(11)),
            Judgement.OVER_LIMIT,
            "start 2026-12-01 11:00 UTC asked, maxAhead is 1h: the latest start now is 2026-12-01 10:00 UTC",
        ),
        (
            {"max_units_per_reservation": 1},
            wish(),
            Judgement.OVER_LIMIT,
            "2 units asked, maxUnitsPerReservation is 1",
        ),
        (
            {"max_units_per_namespace": 1},
            wish(),
            Judgement.OVER_LIMIT,
            "2 units asked and namespace alice holds 0 from 2026-12-01 09:00 UTC, maxUnitsPerNamespace is 1",
        ),
        ({"namespaces": ("bob",)}, wish(), Judgement.NOT_ALLOWED, "namespace alice may not reserve h100"),
    ],
)
def test_a_denial_names_the_limit_and_its_value(
    limits: dict[str, Any], asked: Wish, reason: Judgement, said: str
) -> None:
    verdict = judged(asked, gpu_class=limited(**limits))
    assert (verdict.reason, verdict.message, verdict.granted) == (reason, said, None)


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.CONFIRMING, Phase.CONFIRMED, Phase.ACTIVE])
def test_one_reservation_more_than_a_namespace_may_have_is_denied(phase: Phase) -> None:
    own = [a_reservation(f"own{n}", units=1, start=14, end=15, phase=phase) for n in range(2)]
    verdict = judged(wish(), *own, gpu_class=limited(max_reservations_per_namespace=2))
    assert (verdict.reason, verdict.granted) == (Judgement.OVER_LIMIT, None)
    assert verdict.message == "namespace alice has 2 live h100 reservations, maxReservationsPerNamespace is 2"
    assert judged(wish(), *own, gpu_class=limited(max_reservations_per_namespace=3)).reason is Judgement.FITS


@pytest.mark.parametrize("phase", [Phase.ENDED, Phase.DENIED, Phase.CANCELED])
def test_reservations_that_are_over_or_of_others_do_not_count(phase: Phase) -> None:
    over, others = a_reservation("over", phase=phase), a_reservation("theirs", "bob", start=14, end=15)
    assert judged(wish(), over, others, gpu_class=limited(max_reservations_per_namespace=1)).reason is Judgement.FITS


def test_a_change_is_not_judged_by_how_many_there_are() -> None:
    own = [a_reservation(f"own{n}", units=1, start=14, end=15) for n in range(2)]
    standing = a_reservation(wish=wish(end=at(14)))
    assert standing.granted is not None
    tight = limited(max_reservations_per_namespace=1)
    verdict = confirmation.judge_change(standing, standing.granted, tight, own, 4, NINE, Display())
    assert verdict.reason is Judgement.FITS


def test_exactly_the_limit_is_within_it() -> None:
    tight = limited(
        max_duration=4 * HOUR,
        max_ahead=2 * HOUR,
        max_units_per_reservation=2,
        max_units_per_namespace=2,
        namespaces=("alice",),
    )
    assert judged(wish(start=at(11), end=at(15)), gpu_class=tight).reason is Judgement.FITS


def test_what_a_namespace_holds_at_once_is_counted_over_time() -> None:
    own = a_reservation("own", units=2, start=11, end=13)
    tight = limited(max_units_per_namespace=3)
    assert judged(wish(end=at(11)), own, gpu_class=tight).reason is Judgement.FITS
    assert "holds 2 from 2026-12-01 11:00 UTC" in judged(wish(), own, gpu_class=tight).message


def test_what_others_hold_does_not_count_for_the_namespace() -> None:
    others = a_reservation("own", "bob", units=2)
    assert judged(wish(), others, gpu_class=limited(max_units_per_namespace=2)).reason is Judgement.FITS


def test_a_denial_ends_with_the_first_slot() -> None:
    verdict = judged(wish(4), a_reservation(units=2, start=11, end=15))
    assert verdict.reason is Judgement.NO_CAPACITY
    assert "only 2 free from 11:00" in verdict.message
    assert verdict.message.endswith("first slot for 4 units × 4h: 2026-12-01 15:00 UTC")


def test_the_first_slot_is_one_that_the_namespace_may_use() -> None:
    others = a_reservation("theirs", "bob", units=4, start=9, end=12)
    own = a_reservation("own", units=2, start=13, end=20)
    tight = limited(max_units_per_namespace=2)
    assert judged(wish(2), others, own, gpu_class=tight).message.endswith("2026-12-01 20:00 UTC")
    assert judged(wish(2, end=at(10)), others, own, gpu_class=tight).message.endswith("2026-12-01 12:00 UTC")


def test_the_slot_that_a_denial_names_fits() -> None:
    others = (a_reservation("a", units=3, start=8, end=11), a_reservation("b", units=2, start=12, end=16))
    assert judged(wish(3), *others).message.endswith("2026-12-01 16:00 UTC")
    assert judged(wish(3, start=at(16), end=at(20)), *others).reason is Judgement.FITS


def test_more_than_the_class_has_is_denied_with_what_it_has() -> None:
    verdict = judged(wish(5))
    assert verdict.reason is Judgement.NO_CAPACITY
    assert verdict.message.endswith("asked 2026-12-01 09:00–13:00 UTC, the class has 4 to book in all")


def test_a_class_without_units_says_so() -> None:
    assert judged(wish(), bookable=0).reason is Judgement.NO_NODE_FITS


def test_over_commitment_is_shown_as_nothing_free() -> None:
    assert "only 0 free" in judged(wish(2), a_reservation(units=3), bookable=2).message


def test_windows_that_touch_fit() -> None:
    assert judged(wish(4, start=at(13), end=at(14)), a_reservation(units=4, start=9, end=13)).reason is Judgement.FITS


def test_one_second_of_overlap_does_not_fit() -> None:
    overlapping = wish(4, start=at(13) - SECOND, end=at(14))
    assert judged(overlapping, a_reservation(units=4, start=9, end=13)).reason is Judgement.NO_CAPACITY


def test_an_unknown_class_is_told_with_the_nearest() -> None:
    verdict = confirmation.unknown_class("hl00", ["h100", "a100"])
    assert verdict.reason is Judgement.UNKNOWN_GPU_CLASS
    assert verdict.message == 'no class "hl00"; did you mean "h100"? classes here: a100, h100'


def test_no_wish_is_too_long_to_be_judged() -> None:
    endless = wish(start=datetime(9999, 12, 31, tzinfo=UTC), end=None, duration=timedelta(days=10**6))
    assert judged(endless).reason is Judgement.OVER_LIMIT
    assert judged(endless, gpu_class=a_class(limits=UNLIMITED)).reason is Judgement.FITS


def test_a_change_of_clocks_changes_no_length() -> None:
    before = datetime(2026, 10, 25, 0, tzinfo=ZoneInfo("Europe/Berlin")).astimezone(UTC)
    asked = wish(start=before, end=None, duration=24 * HOUR)
    verdict = judged(asked, now=before, display=Display(ZoneInfo("Europe/Berlin")))
    assert verdict.granted is not None
    assert verdict.granted.window.duration == 24 * HOUR
    assert verdict.message == "2 × h100, 2026-10-25 00:00 CEST–23:00 CET"


def test_the_display_decides_nothing() -> None:
    full = a_reservation(units=4)
    zones = (Display(), Display(ZoneInfo("Asia/Kathmandu")))
    assert len({judged(wish(), full, display=zone).reason for zone in zones}) == 1
    assert len({judged(wish(), display=zone).granted for zone in zones}) == 1


def test_spare_and_unreserved_units_are_not_sold() -> None:
    assert confirmation.bookable_units(a_class(spare=1), physical=8, unreserved=2) == 5
    assert confirmation.bookable_units(a_class(spare=9), physical=8, unreserved=0) == 0


def test_dry_run_and_confirmation_say_the_same() -> None:
    others = (a_reservation(units=3),)
    asking = a_reservation("new", phase=Phase.PENDING, wish=wish())
    stored = replace(asking, phase=Phase.CONFIRMING, version="2")
    answers = {confirmation.judge(row, a_class(), others, 4, NINE, Display()).message for row in (asking, stored)}
    assert len(answers) == 1


def test_a_slot_that_many_windows_of_class_and_namespace_stand_against_is_found_in_one_sweep() -> None:
    mine = [_row(f"m{n}", "alice", at(9) + n * 2 * SECOND) for n in range(2000)]
    theirs = [_row(f"t{n}", "bob", at(9) + (n * 2 + 1) * SECOND) for n in range(2000)]
    verdict = judged(wish(units=4), *mine, *theirs, gpu_class=limited(max_units_per_namespace=4))
    assert verdict.granted is None


def _row(name: str, namespace: str, start: Instant) -> Reservation:
    return a_reservation(name, namespace, granted=Granted(Window(start, start + SECOND), 1))
