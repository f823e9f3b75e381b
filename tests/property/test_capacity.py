"""Units over time against a model that looks at every minute."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from common.domain.capacity import Commitment, committed_at, first_slot, last_end, lowest
from common.domain.time import Instant, Window
from tests.property.profile import CALM
from tests.support.builders import NINE

MINUTE = timedelta(minutes=1)
DAY = 60
"""The model's grid, in minutes; after it nothing is committed."""


commitments = st.lists(
    st.tuples(st.integers(0, DAY), st.integers(0, DAY), st.integers(0, 4)).map(
        lambda t: Commitment(Window(minute(min(t[:2])), minute(max(t[:2]))), t[2])
    ),
    max_size=8,
)
windows = st.tuples(st.integers(0, DAY), st.integers(1, 20)).map(lambda t: Window(minute(t[0]), minute(t[0] + t[1])))
few = st.integers(0, 8)


def minute(number: int) -> Instant:
    return NINE + number * MINUTE


def free_by_minute(bookable: int, kept: list[Commitment]) -> list[int]:
    """One minute stands for all its instants, because every boundary is a whole minute."""
    return [bookable - sum(c.units for c in kept if c.window.start <= minute(n) < c.window.end) for n in range(3 * DAY)]


def number(instant: Instant) -> int:
    return (instant - NINE) // MINUTE


@CALM
@given(few, commitments, windows)
def test_the_lowest_is_the_first_minute_with_the_fewest_free(
    bookable: int, kept: list[Commitment], window: Window
) -> None:
    grid = free_by_minute(bookable, kept)
    minutes = range(number(window.start), number(window.end))
    fewest = min(minutes, key=lambda n: (grid[n], n))
    low = lowest(bookable, kept, window)
    assert (low.free, low.since) == (grid[fewest], minute(fewest))


@CALM
@given(few, commitments, st.integers(1, 5), st.integers(1, 15), st.integers(0, DAY))
def test_the_first_slot_is_the_first_minute_from_which_all_minutes_fit(
    bookable: int, kept: list[Commitment], units: int, length: int, start: int
) -> None:
    grid = free_by_minute(bookable, kept)
    fitting = (n for n in range(start, 2 * DAY) if all(grid[m] >= units for m in range(n, n + length)))
    expected = next(fitting, None)
    slot = first_slot(bookable, kept, units, length * MINUTE, minute(start))
    assert slot == (None if expected is None else minute(expected))


@CALM
@given(few, commitments, st.integers(1, 5), st.integers(0, DAY))
def test_the_last_end_is_the_first_minute_with_too_few(
    bookable: int, kept: list[Commitment], units: int, start: int
) -> None:
    grid = free_by_minute(bookable, kept)
    expected = next((n for n in range(start, 2 * DAY) if grid[n] < units), None)
    assert last_end(bookable, kept, units, minute(start)) == (None if expected is None else minute(expected))


@CALM
@given(few, commitments, windows, st.integers(1, 5))
def test_a_window_fits_exactly_when_its_first_slot_is_its_start(
    bookable: int, kept: list[Commitment], window: Window, units: int
) -> None:
    slot = first_slot(bookable, kept, units, window.duration, window.start)
    assert (lowest(bookable, kept, window).free >= units) == (slot == window.start)


@CALM
@given(commitments, st.integers(0, DAY))
def test_what_is_committed_at_an_instant_is_what_its_minute_has(kept: list[Commitment], at: int) -> None:
    assert committed_at(kept, minute(at)) == -free_by_minute(0, kept)[at]
