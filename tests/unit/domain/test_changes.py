"""A changed wish against a standing promise: what shrinks always fits, what grows must fit anew."""

from datetime import timedelta
from typing import Any

import pytest

from common.domain import confirmation
from common.domain.confirmation import Judgement, Verdict
from common.domain.gpu_class import GpuClass, Limits
from common.domain.reservation import Granted, Phase, Reservation, Wish
from common.domain.texts import Display
from common.domain.time import Instant
from tests.support.builders import HOUR, a_class, a_reservation, at, granted, window

PROMISED = granted(2, 9, 13)


def changed(
    *others: Reservation,
    bookable: int = 4,
    now: Instant | None = None,
    gpu_class: GpuClass | None = None,
    promised: Granted = PROMISED,
    **fields: Any,
) -> Verdict:
    values: dict[str, Any] = {"gpu_class": "h100", "units": 2, "start": at(9), "end": at(13)}
    wish = Wish(**(values | fields))
    asking = a_reservation(wish=wish, granted=promised, phase=Phase.ACTIVE)
    instant = now or at(10)
    return confirmation.judge_change(asking, promised, gpu_class or a_class(), others, bookable, instant, Display())


def test_an_extension_onto_free_units_is_granted() -> None:
    assert changed(end=at(17)).granted == granted(2, 9, 17)


def test_an_extension_by_duration_counts_from_the_granted_start() -> None:
    verdict = changed(start=None, end=None, duration=8 * HOUR)
    assert verdict.granted == granted(2, 9, 17)


def test_an_extension_up_to_the_next_booking_is_granted() -> None:
    assert changed(a_reservation("next", units=4, start=17, end=20), end=at(17)).granted == granted(2, 9, 17)


def test_an_extension_into_the_next_booking_is_refused_with_the_longest_end() -> None:
    verdict = changed(a_reservation("next", units=4, start=18, end=22), end=at(20))
    assert (verdict.reason, verdict.granted) == (Judgement.NO_CAPACITY, None)
    assert "longest possible end 18:00; yours until 13:00 UTC as before" in verdict.message


def test_the_longest_end_is_never_before_what_is_promised() -> None:
    verdict = changed(a_reservation("next", units=4, start=11, end=22), end=at(20))
    assert "longest possible end 13:00;" in verdict.message


def test_only_what_grows_is_judged() -> None:
    """The class has lost nodes: what was promised is not taken back, and no other extension is granted either."""
    lost = a_reservation("other", units=4, start=9, end=13)
    assert changed(lost, bookable=2, end=at(14)).granted == granted(2, 9, 14)
    assert changed(lost, bookable=1, end=at(14)).granted is None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"end": at(11)}, granted(2, 9, 11)),
        ({"units": 1}, granted(1, 9, 13)),
        ({"units": 1, "end": at(12)}, granted(1, 9, 12)),
    ],
)
def test_what_shrinks_fits_however_full_the_class_is(fields: dict[str, Any], expected: Granted) -> None:
    full = a_reservation("other", units=9, start=0, end=24)
    assert changed(full, bookable=0, **fields).granted == expected


def test_an_end_before_the_start_ends_the_window_where_it_began() -> None:
    assert changed(end=at(8)).granted == granted(2, 9, 9)


def test_more_units_must_fit_from_now_on() -> None:
    past = a_reservation("past", units=2, start=9, end=10)
    assert changed(past, units=4, now=at(10)).granted == granted(4, 9, 13)
    verdict = changed(a_reservation("other", units=1, start=12, end=20), units=4)
    assert verdict.reason is Judgement.NO_CAPACITY
    assert verdict.message == (
        "not changed to 4 units: 3 h100 free from 12:00 UTC; 2 × h100 yours until 13:00 UTC as before"
    )


def test_fewer_units_for_longer_must_fit_only_where_it_grows() -> None:
    other = a_reservation("other", units=3, start=13, end=20)
    assert changed(other, units=1, end=at(17)).granted == granted(1, 9, 17)
    assert changed(other, units=2, end=at(17)).granted is None


def test_a_window_moved_past_its_end_is_judged_where_it_goes() -> None:
    between = a_reservation("between", units=4, start=14, end=16)
    verdict = changed(between, now=at(8), start=at(18), end=at(20))
    assert verdict.granted == granted(2, 18, 20)


def test_a_start_that_is_earlier_than_granted_changes_nothing() -> None:
    assert changed(start=at(8)).granted == PROMISED


@pytest.mark.parametrize(
    ("limits", "fields", "said"),
    [
        (
            {"max_duration": 5 * HOUR},
            {"end": at(15)},
            "not changed: 6h asked, maxDuration is 5h; yours until 13:00 UTC",
        ),
        ({"max_units_per_reservation": 2}, {"units": 3}, "3 units asked, maxUnitsPerReservation is 2"),
        ({"max_units_per_namespace": 2}, {"units": 3}, "maxUnitsPerNamespace is 2"),
        ({"namespaces": ("bob",)}, {"end": at(15)}, "namespace alice may not reserve h100"),
    ],
)
def test_what_grows_keeps_the_limits(limits: dict[str, Any], fields: dict[str, Any], said: str) -> None:
    verdict = changed(gpu_class=a_class(limits=Limits(**limits)), **fields)
    assert verdict.granted is None
    assert said in verdict.message


def test_limits_made_narrower_take_nothing_back() -> None:
    narrow = a_class(limits=Limits(max_duration=HOUR, max_units_per_reservation=1, namespaces=("bob",)))
    assert changed(gpu_class=narrow).granted == PROMISED
    assert changed(gpu_class=narrow, units=1).granted == granted(1, 9, 13)


def test_an_extension_without_end_is_judged_all_the_same() -> None:
    unlimited = a_class(limits=Limits(max_duration=None, max_ahead=None))
    verdict = changed(gpu_class=unlimited, end=None, duration=10**7 * 24 * HOUR)
    assert verdict.granted is not None
    assert verdict.granted.window.end.year == 9999


def test_shrinking_is_asking_for_nothing_that_is_not_promised() -> None:
    assert confirmation.is_shrunk(PROMISED, PROMISED)
    assert confirmation.is_shrunk(Granted(window(10, 13), 1), PROMISED)
    assert not confirmation.is_shrunk(Granted(window(9, 14), 1), PROMISED)
    assert not confirmation.is_shrunk(Granted(window(9, 13), 3), PROMISED)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"pods": {"app": "hub"}},
        {"start": at(8)},
        {"start": at(9) + timedelta(milliseconds=1), "end": at(13) + timedelta(milliseconds=900)},
        {"end": None, "duration": 4 * HOUR},
    ],
    ids=["note", "pods", "earlier start", "fractions of seconds", "the same end by duration"],
)
def test_a_wish_for_what_is_promised_is_nothing_to_judge(fields: dict[str, Any]) -> None:
    values: dict[str, Any] = {"gpu_class": "h100", "units": 2, "start": at(9), "end": at(13)}
    assert confirmation.asks_what_it_has(a_reservation(wish=Wish(**(values | fields)), granted=PROMISED))


@pytest.mark.parametrize("fields", [{"units": 1}, {"units": 3}, {"end": at(12)}, {"end": at(14)}])
def test_a_wish_for_anything_else_is_judged(fields: dict[str, Any]) -> None:
    values: dict[str, Any] = {"gpu_class": "h100", "units": 2, "start": at(9), "end": at(13)}
    assert not confirmation.asks_what_it_has(a_reservation(wish=Wish(**(values | fields)), granted=PROMISED))
    assert not confirmation.asks_what_it_has(a_reservation(phase=Phase.PENDING))
