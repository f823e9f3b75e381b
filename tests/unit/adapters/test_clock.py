"""The bounds of the API server's clock."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.adapters.clock import AGAINST_OTHERS, AT_FIRST, FAR_PAST, Bounds, ServerClock, bounds_of
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


def starts(clock: ServerClock, mono: Mono, offset: float) -> None:
    """As many samples as it takes until the first are believed."""
    for _ in range(AT_FIRST.samples):
        mono.now += AT_FIRST.seconds / (AT_FIRST.samples - 1)
        sample(clock, offset, mono.now - 0.002, mono.now - 0.001, mono.now)


def settles(clock: ServerClock, mono: Mono, offset: float) -> None:
    """As many as it takes until one that contradicts them is only a claim."""
    for _ in range(AGAINST_OTHERS.samples):
        mono.now += AGAINST_OTHERS.seconds / (AGAINST_OTHERS.samples - 1)
        sample(clock, offset, mono.now - 0.002, mono.now - 0.001, mono.now)


def possible(clock: ServerClock, mono: Mono, offset: float) -> bool:
    """Whether the truth lies in what the clock claims."""
    if clock.now() == FAR_PAST:
        return clock.uncertainty() == timedelta.max
    low, high = offset_bounds(clock, mono)
    return low - TOLERANCE <= offset <= high + TOLERANCE


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
        assert possible(clock, mono, offset + rate * (mono.now - 1000.0))
    mono.now += 3600
    assert possible(clock, mono, offset + rate * (mono.now - 1000.0))
    assert clock.contradictions == 0


@given(offset=offsets, journey=trips)
def test_more_samples_never_say_less_than_the_best_one(
    offset: float, journey: list[tuple[float, float, float]]
) -> None:
    mono = Mono()
    clock = ServerClock(mono, drift=0.0)
    starts(clock, mono, offset)
    narrowest = float("inf")
    for pause, trip, part in journey:
        sent = mono.now + pause
        mono.now = sent + trip
        sample(clock, offset, sent, sent + trip * part, mono.now)
        narrowest = min(narrowest, 1.0 + trip)
        assert clock.uncertainty().total_seconds() <= narrowest + TOLERANCE


answers = st.tuples(
    st.floats(min_value=0.0, max_value=60.0),  # pause before
    st.floats(min_value=0.0001, max_value=2.0),  # round trip
    # How far the answer's clock is off, and the same lie is told again: a little is no lie, but what whole seconds and
    # long round trips hide.
    st.sampled_from((0.0,) * 5 + (7200.0,) * 4 + (7250.0, 10.0, -10.0, -1e7)),
)


def seldom_lies(journey: list[tuple[float, float, float]]) -> bool:
    """Of the first three answers one at most, and never five in a row, which is what is believed."""
    lies = [off != 0.0 for _, _, off in journey]
    runs = [all(lies[at : at + 5]) for at in range(len(lies) - 4)]
    return sum(lies[:3]) <= 1 and not any(runs)


@given(offset=offsets, started=st.booleans(), journey=st.lists(answers, max_size=20).filter(seldom_lies))
def test_the_truth_is_possible_whatever_some_answers_say(
    offset: float, started: bool, journey: list[tuple[float, float, float]]
) -> None:
    mono = Mono()
    clock = ServerClock(mono)
    if started:
        starts(clock, mono, offset)
    for pause, trip, off in journey:
        sent = mono.now + pause
        mono.now = sent + trip
        sample(clock, offset + off, sent, sent + trip / 2, mono.now)
        assert possible(clock, mono, offset)


@given(
    offset=offsets,
    step=st.floats(min_value=-1e7, max_value=1e7).filter(lambda step: abs(step) > 3),
    pause=st.floats(min_value=0.1, max_value=60.0),
)
def test_a_clock_that_was_set_is_believed_after_five_answers_and_ten_seconds(
    offset: float, step: float, pause: float
) -> None:
    mono = Mono()
    clock = ServerClock(mono)
    starts(clock, mono, offset)
    needed = max(AGAINST_OTHERS.samples, int(AGAINST_OTHERS.seconds / pause) + 2)
    for _ in range(needed):
        mono.now += pause
        sample(clock, offset + step, mono.now - 0.002, mono.now - 0.001, mono.now)
        assert possible(clock, mono, offset + step)
    assert clock.uncertainty() < timedelta(seconds=1.1)


def test_one_answer_that_lies_moves_nothing_forward_and_is_forgotten_at_the_next() -> None:
    mono = Mono()
    clock = ServerClock(mono)
    settles(clock, mono, EPOCH_AT_NINE)
    before, sure = clock.now(), clock.uncertainty()
    sample(clock, EPOCH_AT_NINE + 7200, mono.now - 0.002, mono.now - 0.001, mono.now)
    assert clock.now() - before < timedelta(milliseconds=1)
    assert clock.uncertainty() > timedelta(hours=1)
    sample(clock, EPOCH_AT_NINE, mono.now - 0.002, mono.now - 0.001, mono.now)
    assert clock.uncertainty() <= sure + timedelta(milliseconds=1)


def test_an_answer_that_lies_behind_ends_nothing_that_was_open() -> None:
    mono = Mono()
    clock = ServerClock(mono)
    settles(clock, mono, EPOCH_AT_NINE)
    sample(clock, EPOCH_AT_NINE - 7200, mono.now - 0.002, mono.now - 0.001, mono.now)
    assert clock.uncertainty() > timedelta(hours=1)


def test_many_answers_of_one_moment_do_not_outvote_what_was_known() -> None:
    mono = Mono()
    clock = ServerClock(mono)
    settles(clock, mono, EPOCH_AT_NINE)
    for _ in range(100):
        mono.now += 0.05
        sample(clock, EPOCH_AT_NINE + 7200, mono.now - 0.002, mono.now - 0.001, mono.now)
    assert possible(clock, mono, EPOCH_AT_NINE)


def test_a_first_answer_that_lies_is_not_believed() -> None:
    mono = Mono()
    clock = ServerClock(mono)
    sample(clock, EPOCH_AT_NINE + 7200, mono.now - 0.002, mono.now - 0.001, mono.now)
    assert (clock.now(), clock.uncertainty()) == (FAR_PAST, timedelta.max)
    for _ in range(14):
        mono.now += 1
        sample(clock, EPOCH_AT_NINE, mono.now - 0.002, mono.now - 0.001, mono.now)
        assert possible(clock, mono, EPOCH_AT_NINE)
    assert clock.uncertainty() < timedelta(seconds=1.1)


def test_first_answers_that_all_lie_are_forgotten_at_the_first_that_does_not() -> None:
    mono = Mono()
    clock = ServerClock(mono)
    starts(clock, mono, EPOCH_AT_NINE + 7200)
    mono.now += 1
    sample(clock, EPOCH_AT_NINE, mono.now - 0.002, mono.now - 0.001, mono.now)
    assert clock.now() == FAR_PAST
    mono.now += 1
    sample(clock, EPOCH_AT_NINE + 7200, mono.now - 0.002, mono.now - 0.001, mono.now)
    # The liar's next answer is no more than a claim.
    assert clock.now() == FAR_PAST


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


def test_an_answer_that_is_off_by_less_than_a_second_leaves_the_truth_possible() -> None:
    mono = Mono()
    clock = ServerClock(mono)
    starts(clock, mono, EPOCH_AT_NINE)
    for _ in range(8):
        mono.now += clock.probe_in() + 0.001
        sample(clock, EPOCH_AT_NINE, mono.now - 0.002, mono.now - 0.001, mono.now)
    mono.now += clock.probe_in() - 0.5
    sample(clock, EPOCH_AT_NINE + 0.9, mono.now - 0.002, mono.now - 0.001, mono.now)
    assert clock.contradictions == 1
    assert possible(clock, mono, EPOCH_AT_NINE)


def test_before_the_first_sample_nothing_has_begun_and_nothing_is_over() -> None:
    clock = ServerClock(Mono())
    assert clock.now() == FAR_PAST
    assert clock.uncertainty() == timedelta.max
    assert clock.probe_in() == 0.0


def test_now_is_the_early_edge() -> None:
    mono = Mono(1000.0)
    clock = ServerClock(mono, drift=0.0)
    for turn in range(3):
        # The server read a whole second and some fraction, at some moment of 0.2 s.
        clock.sample(NINE + timedelta(seconds=turn), 1000.0 + turn, 1000.2 + turn)
    mono.now = 1002.2
    assert NINE + timedelta(seconds=1.999) < clock.now() <= NINE + timedelta(seconds=2)
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
    starts(clock, mono, EPOCH_AT_NINE)
    sample(clock, EPOCH_AT_NINE, 1999.9, 1999.95, 2000.0)
    sample(clock, EPOCH_AT_NINE, 1900.0, 1900.1, 1990.0)
    low, high = offset_bounds(clock, mono)
    assert low <= EPOCH_AT_NINE <= high
    assert high - low < 1.2


@pytest.mark.parametrize(("one", "other", "gap"), [((0, 1), (3, 4), 2), ((3, 4), (0, 1), 2), ((0, 2), (1, 3), 0)])
def test_gap(one: tuple[float, float], other: tuple[float, float], gap: float) -> None:
    assert Bounds(*one).gap(Bounds(*other)) == gap


def test_bounds_of_one_answer() -> None:
    low, high = bounds_of(NINE, sent=10.0, received=10.5)
    assert (low, high) == pytest.approx((EPOCH_AT_NINE - 10.5, EPOCH_AT_NINE + 1 - 10.0), abs=1e-4)
