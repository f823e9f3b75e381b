"""The bounds of the API server's clock."""

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.adapters.clock import FAR_PAST, Bounds, ServerClock, bounds_of, monotonic
from tests.support.builders import NINE

EPOCH_AT_NINE = (NINE - FAR_PAST).total_seconds()
TOLERANCE = 1e-5  # what floats of seconds since 1970 lose


class Mono:
    """A monotonic clock that a test moves."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def sample(clock: ServerClock, offset: float, sent: float, stamped: float, received: float) -> None:
    """An answer of a server whose clock is `offset` ahead of the monotonic one."""
    second = int((stamped + offset) // 1)
    clock.sample(FAR_PAST + timedelta(seconds=second), sent, received)


def offset_bounds(clock: ServerClock, mono: Mono) -> Bounds:
    low = (clock.now() - FAR_PAST).total_seconds() - mono.now
    return Bounds(low, low + clock.uncertainty().total_seconds())


trips = st.lists(
    st.tuples(
        st.floats(min_value=0.0, max_value=300.0),  # pause before
        st.floats(min_value=0.0001, max_value=2.0),  # round trip
        st.floats(min_value=0.0, max_value=1.0),  # where in it the server read its clock
    ),
    min_size=1,
    max_size=40,
)
offsets = st.floats(min_value=EPOCH_AT_NINE, max_value=EPOCH_AT_NINE + 1)
rates = st.floats(min_value=-50e-6, max_value=50e-6)


@given(offset=offsets, rate=rates, journey=trips)
def test_the_true_offset_is_always_inside(
    offset: float, rate: float, journey: list[tuple[float, float, float]]
) -> None:
    mono = Mono()
    clock = ServerClock(mono)
    for pause, trip, part in journey:
        sent = mono.now + pause
        stamped = sent + trip * part
        mono.now = sent + trip
        sample(clock, offset + rate * (stamped - 1000.0), sent, stamped, mono.now)
        true = offset + rate * (mono.now - 1000.0)
        low, high = offset_bounds(clock, mono)
        assert low - TOLERANCE <= true <= high + TOLERANCE
    mono.now += 3600
    low, high = offset_bounds(clock, mono)
    assert low - TOLERANCE <= offset + rate * (mono.now - 1000.0) <= high + TOLERANCE
    assert clock.contradictions == 0


@given(offset=offsets, journey=trips)
def test_more_samples_never_say_less_than_the_best_one(
    offset: float, journey: list[tuple[float, float, float]]
) -> None:
    mono = Mono()
    clock = ServerClock(mono, drift=0.0)
    narrowest = float("inf")
    for pause, trip, part in journey:
        sent = mono.now + pause
        mono.now = sent + trip
        sample(clock, offset, sent, sent + trip * part, mono.now)
        narrowest = min(narrowest, 1.0 + trip)
        assert clock.uncertainty().total_seconds() <= narrowest + TOLERANCE


@given(
    offset=offsets,
    step=st.floats(min_value=-7200, max_value=7200).filter(lambda step: abs(step) > 3),
    journey=trips.filter(lambda trips: len(trips) > 3),
)
def test_a_clock_that_was_set_is_found_out_by_the_next_sample(
    offset: float, step: float, journey: list[tuple[float, float, float]]
) -> None:
    mono = Mono()
    clock = ServerClock(mono)
    for index, (_, trip, part) in enumerate(journey):
        true = offset if index < len(journey) // 2 else offset + step
        sent = mono.now + 1
        mono.now = sent + min(trip, 0.5)
        sample(clock, true, sent, sent + (mono.now - sent) * part, mono.now)
        low, high = offset_bounds(clock, mono)
        assert low - TOLERANCE <= true <= high + TOLERANCE
    assert clock.contradictions == 1


def test_servers_whose_clocks_differ_a_little_soon_agree() -> None:
    mono = Mono()
    clock = ServerClock(mono)
    seen = []
    for turn in range(400):
        mono.now += 0.37
        sample(clock, EPOCH_AT_NINE + 0.08 * (turn % 2), mono.now - 0.002, mono.now - 0.001, mono.now)
        seen.append(clock.contradictions)
    assert seen[-1] == seen[100], "after some answers nothing contradicts any more"
    assert clock.uncertainty() < timedelta(seconds=0.6)


def test_before_the_first_sample_nothing_has_begun_and_nothing_is_over() -> None:
    clock = ServerClock(Mono())
    assert clock.now() == FAR_PAST
    assert clock.uncertainty() == timedelta.max
    assert clock.until(NINE) == float("inf")
    assert clock.probe_in() == 0.0


def test_now_is_the_early_edge_and_until_waits_for_it() -> None:
    mono = Mono(1000.0)
    clock = ServerClock(mono, drift=0.0)
    clock.sample(NINE, 1000.0, 1000.2)  # the server read nine o'clock and some fraction, at some moment of 0.2 s
    mono.now = 1000.2
    assert NINE - timedelta(seconds=0.001) < clock.now() <= NINE
    assert clock.until(NINE + timedelta(seconds=5)) == pytest.approx(5, abs=1e-4)
    assert clock.uncertainty().total_seconds() == pytest.approx(1.2, abs=1e-4)


def test_probes_at_the_right_moment_halve_the_bounds() -> None:
    mono = Mono()
    clock = ServerClock(mono)
    offset = EPOCH_AT_NINE + 0.123
    for _ in range(8):
        mono.now += clock.probe_in() + 0.001
        sample(clock, offset, mono.now - 0.002, mono.now - 0.001, mono.now)
    assert clock.uncertainty() < timedelta(milliseconds=25)


def test_answers_that_come_out_of_order_do_no_harm() -> None:
    mono = Mono(2000.0)
    clock = ServerClock(mono)
    sample(clock, EPOCH_AT_NINE, 1999.9, 1999.95, 2000.0)
    sample(clock, EPOCH_AT_NINE, 1900.0, 1900.1, 1990.0)
    low, high = offset_bounds(clock, mono)
    assert low <= EPOCH_AT_NINE <= high
    assert high - low < 1.2


@pytest.mark.parametrize(("one", "other", "gap"), [((0, 1), (3, 4), 2), ((3, 4), (0, 1), 2), ((0, 2), (1, 3), 0)])
def test_gap(one: tuple[float, float], other: tuple[float, float], gap: float) -> None:
    assert Bounds(*one).gap(Bounds(*other)) == gap


async def test_sleep_until_returns_when_now_is_there() -> None:
    clock = ServerClock()
    sent = monotonic()
    clock.sample(NINE, sent, monotonic())
    async with asyncio.timeout(5):
        await clock.sleep_until(NINE + timedelta(seconds=0.05))
    assert clock.now() >= NINE + timedelta(seconds=0.05)


def test_bounds_of_one_answer() -> None:
    low, high = bounds_of(NINE, sent=10.0, received=10.5)
    assert (low, high) == pytest.approx((EPOCH_AT_NINE - 10.5, EPOCH_AT_NINE + 1 - 10.0), abs=1e-4)
