"""Instants and windows: half-open, UTC, whatever zone they were written in."""

from datetime import UTC, datetime, timedelta

import pytest

from common.domain.time import Window, after, format_instant, parse_instant
from tests.support.builders import HOUR, NINE, at, window

SECOND = timedelta(seconds=1)


def test_a_window_contains_its_start_and_not_its_end() -> None:
    nine_to_one = window(9, 13)
    assert [nine_to_one.contains(i) for i in (at(9) - SECOND, at(9), at(13) - SECOND, at(13))] == [
        False,
        True,
        True,
        False,
    ]


def test_windows_that_touch_do_not_overlap() -> None:
    assert not window(9, 13).overlaps(window(13, 14))
    assert not window(13, 14).overlaps(window(9, 13))


def test_windows_that_share_a_second_overlap() -> None:
    assert window(9, 13).overlaps(Window(at(13) - SECOND, at(14)))


def test_a_window_of_zero_length_contains_no_instant() -> None:
    assert not Window(NINE, NINE).contains(NINE)


def test_a_window_cannot_end_before_it_starts() -> None:
    with pytest.raises(ValueError, match="before it starts"):
        Window(at(10), at(9))


def test_an_instant_is_stored_in_utc_without_fractions() -> None:
    assert format_instant(datetime(2026, 12, 1, 9, 0, 0, 999_999, UTC)) == "2026-12-01T09:00:00Z"


@pytest.mark.parametrize(
    "text",
    ["2026-12-01T09:00:00Z", "2026-12-01T10:00:00+01:00", "2026-12-01T09:00:00.000000Z", "2026-12-01T04:00-05:00"],
)
def test_an_instant_is_the_same_in_whatever_offset_it_is_written(text: str) -> None:
    assert parse_instant(text) == NINE
    assert parse_instant(text).tzinfo is UTC


def test_an_instant_without_an_offset_is_refused() -> None:
    with pytest.raises(ValueError, match="has no offset"):
        parse_instant("2026-12-01T09:00:00")


def test_a_sum_ends_where_the_calendar_ends() -> None:
    assert after(NINE, 4 * HOUR) == at(13)
    assert after(NINE, timedelta(days=10**7)).year == 9999
