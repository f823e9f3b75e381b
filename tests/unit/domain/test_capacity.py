"""Units over time, on half-open windows."""

from dataclasses import replace
from datetime import timedelta

import pytest

from common.domain.capacity import Commitment, Low, commitments, committed_at, first_slot, last_end, lowest
from common.domain.reservation import Phase, Wish
from common.domain.time import Window
from tests.support.builders import HOUR, NINE, a_reservation, at, window

SECOND = timedelta(seconds=1)
KEPT = [Commitment(window(9, 11), 2), Commitment(window(11, 13), 3)]


def test_a_commitment_counts_from_its_start_up_to_its_end() -> None:
    instants = (at(9) - SECOND, at(9), at(11) - SECOND, at(11), at(13) - SECOND, at(13))
    assert [committed_at(KEPT, i) for i in instants] == [0, 2, 2, 3, 3, 0]


def test_the_lowest_is_the_first_instant_with_the_fewest_free() -> None:
    assert lowest(4, KEPT, window(9, 13)) == Low(1, at(11))
    assert lowest(4, KEPT, window(12, 14)) == Low(1, at(12))


def test_windows_that_touch_share_no_units() -> None:
    assert lowest(3, KEPT, window(13, 14)) == Low(3, at(13))
    assert lowest(3, KEPT, window(8, 9)) == Low(3, at(8))


@pytest.mark.parametrize(("end", "free"), [(at(11), 2), (at(11) + SECOND, 1), (at(11) - SECOND, 2)])
def test_one_second_decides_whether_a_window_meets_the_next(end: object, free: int) -> None:
    assert isinstance(end, type(NINE))
    assert lowest(4, KEPT, Window(at(9), end)).free == free


def test_more_may_be_committed_than_there_is() -> None:
    assert lowest(2, KEPT, window(9, 13)).free == -1


def test_rows_of_zero_length_keep_nothing() -> None:
    empty = [Commitment(Window(at(10), at(10)), 8)]
    assert lowest(4, empty, window(9, 13)) == Low(4, at(9))
    assert committed_at(empty, at(10)) == 0
    assert first_slot(8, empty, 8, 4 * HOUR, at(9)) == at(9)


def test_the_first_slot_is_the_first_instant_that_fits() -> None:
    assert first_slot(4, KEPT, 2, 2 * HOUR, at(9)) == at(9)
    assert first_slot(4, KEPT, 2, 2 * HOUR + SECOND, at(9)) == at(13)
    assert first_slot(4, KEPT, 1, 24 * HOUR, at(9)) == at(9)


def test_the_first_slot_uses_a_gap_that_is_just_long_enough() -> None:
    gap = [Commitment(window(9, 10), 4), Commitment(window(12, 13), 4)]
    assert first_slot(4, gap, 4, 2 * HOUR, at(9)) == at(10)
    assert first_slot(4, gap, 4, 2 * HOUR + SECOND, at(9)) == at(13)


def test_the_first_slot_is_not_before_the_instant_asked_for() -> None:
    assert first_slot(4, KEPT, 1, HOUR, at(10)) == at(10)
    assert first_slot(4, [], 1, HOUR, at(10)) == at(10)


def test_more_than_there_is_never_fits() -> None:
    assert first_slot(4, [], 5, HOUR, at(9)) is None


def test_units_last_until_the_first_instant_with_too_few() -> None:
    assert last_end(4, KEPT, 2, at(9)) == at(11)
    assert last_end(4, KEPT, 1, at(9)) is None
    assert last_end(4, KEPT, 4, at(9)) == at(9)
    assert last_end(4, KEPT, 2, at(11)) == at(11)


def test_a_reservation_keeps_the_larger_of_granted_and_claimed() -> None:
    over = a_reservation(units=1, claims={"1-3-x": 3})
    assert [c.units for c in commitments([over, a_reservation(units=2)])] == [3, 2]


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.CONFIRMING, Phase.DENIED, Phase.CANCELED, Phase.ENDED])
def test_only_promises_are_kept(phase: Phase) -> None:
    assert commitments([a_reservation(phase=phase, claims={"1-1-x": 1})]) == []


def test_a_wish_to_cancel_frees_nothing_before_the_phase_is_written() -> None:
    going = replace(a_reservation(), wish=Wish("h100", 2, at(9), at(13), cancel=True))
    assert [c.units for c in commitments([going])] == [2]
