"""A dear count is remembered for a while, and is made anew when that while is over."""

from reconciler.counts import COST_RATIO, Counts
from reconciler.state import ClusterState
from tests.support.builders import NINE, a_class, a_node
from tests.support.clock import FakeClock


class Ticking:
    """Each reading is a second later: a count takes one."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def test_a_remembered_count_says_how_long_it_is_remembered() -> None:
    state, ticking = ClusterState(lambda _work: None), Ticking()
    counts = Counts(state, FakeClock(NINE), ticking)
    state.on_node(None, a_node(gpus=8))
    assert counts.known_for_s(a_class()) == 0.0
    assert counts.of(a_class()).units.physical == 8
    state.on_node(None, a_node("node-2", gpus=8))
    assert counts.of(a_class()).units.physical == 8
    assert 0.0 < counts.known_for_s(a_class()) <= COST_RATIO
    ticking.now += COST_RATIO
    assert counts.of(a_class()).units.physical == 16


def test_a_forgotten_class_is_counted_anew() -> None:
    state, ticking = ClusterState(lambda _work: None), Ticking()
    counts = Counts(state, FakeClock(NINE), ticking)
    counts.of(a_class())
    counts.forget("h100")
    assert counts.known_for_s(a_class()) == 0.0
