"""Medians, percentiles and ratios are those of the definition, not of an interpolation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.arithmetic import median, percentile, ratios, spread

VALUES = st.lists(st.floats(min_value=0.001, max_value=1e6), min_size=1, max_size=60)


@pytest.mark.parametrize(
    ("values", "expected"), [([3.0], 3.0), ([5.0, 1.0, 3.0], 3.0), ([4.0, 1.0], 2.5), ([4.0, 1.0, 2.0, 3.0], 2.5)]
)
def test_median(values: list[float], expected: float) -> None:
    assert median(values) == expected


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(100, 0.99, 99), (100, 0.5, 50), (100, 1.0, 100), (20, 0.95, 19), (50, 0.99, 50), (1, 0.99, 1), (7, 0.5, 4)],
)
def test_percentile_is_a_value_that_occurred(count: int, share: float, expected: int) -> None:
    assert percentile([float(value) for value in range(count, 0, -1)], share) == expected


@given(VALUES, st.floats(min_value=0.01, max_value=1.0))
def test_percentile_covers_its_share(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= round(share * len(values), 6)


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1])
def test_percentile_of_nothing_or_of_no_share_is_refused(share: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile([1.0], share)
    with pytest.raises(ValueError, match="percentile"):
        percentile([], 0.5)


def test_median_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        median([])


def test_spread_is_half_of_the_range_over_the_median() -> None:
    found = spread([90.0, 100.0, 120.0])
    assert (found.median, found.half_range, found.count) == (100.0, 0.15, 3)


def test_one_value_and_a_median_of_zero_have_no_spread() -> None:
    assert spread([7.0]).half_range is None
    assert spread([-1.0, 0.0, 1.0]).half_range is None


def test_ratios_go_round_by_round() -> None:
    # The second round was slow for both: the ratio does not show it.
    assert ratios([2.0, 20.0], [1.0, 10.0]) == [2.0, 2.0]
    with pytest.raises(ValueError, match="2 rounds beside 1"):
        ratios([1.0, 2.0], [1.0])
