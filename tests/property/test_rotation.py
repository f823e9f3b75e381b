"""Years of rotation on a virtual clock: whatever a replica serves, every API server trusts it at every instant."""

from collections import Counter
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from certs.rotation import MOST_TRUSTED, Inject, IssueCa, IssueLeaf, Settings
from tests.property.certificates_world import DAY, NAME, NOTHING, World
from tests.property.profile import CALM

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
FEW = settings(CALM, max_examples=12)
PROPAGATION = 2 * MINUTE
RULES = Settings(NAME, PROPAGATION, DAY)
LIVES = (365 * DAY, 90 * DAY)

lags = st.lists(st.integers(0, 119).map(lambda s: timedelta(seconds=s)), min_size=3, max_size=3)
spans = st.one_of(
    st.integers(0, 300).map(lambda s: timedelta(seconds=s)),
    st.integers(1, 300).map(lambda h: timedelta(hours=h)),
    st.integers(1, 200).map(lambda d: timedelta(days=d)),
)
# Within what the margins are for. A third of a leaf's life is left when it is renewed, so a clock may leap so far ahead
# between two renewals; all certificates are backdated by a day, so it may be ahead by as much and be set right again.
leaps = st.integers(0, 25 * 24).map(lambda h: timedelta(hours=h))
errors = st.integers(0, 23).map(lambda h: timedelta(hours=h))
any_jump = st.integers(-3000, 3000).map(lambda d: timedelta(days=d))


def started(behind: list[timedelta], lives: tuple[timedelta, timedelta] = LIVES, rules: Settings = RULES) -> World:
    """Installed, and everything has arrived."""
    world = World(rules, lives, behind)
    world.settle()
    world.pass_(PROPAGATION)
    world.check()
    return world


def harmless(world: World, kind: str, number: int) -> None:
    """Something that a rotation must survive without a failed call."""
    match kind:
        case "leader":
            world.change_leader()
        case "cut":
            world.settle(cut_after=number)
        case "leaf":
            world.lose_leaf()
        case "half":
            world.halve_secret()
        case "ca":
            world.lose_ca()
        case "other ca":
            world.replace_ca()


kinds = st.sampled_from(["leader", "cut", "leaf", "half", "ca", "other ca"])
events = st.lists(st.tuples(spans, kinds, st.integers(0, 3)), max_size=15)


@CALM
@given(lags, events)
def test_no_call_fails_whoever_leads_and_whatever_secret_is_lost(
    behind: list[timedelta], happening: list[tuple[timedelta, str, int]]
) -> None:
    world = started(behind)
    for span, kind, number in happening:
        world.run_until(world.elapsed + span)
        harmless(world, kind, number)
        world.check()
        assert all(len(entry) <= MOST_TRUSTED for entry in world.injected)
    world.run_until(world.elapsed + 2 * DAY)
    assert [len(entry) for entry in world.injected] == [1, 1], "the old CAs have gone"


@CALM
@given(lags, st.lists(st.tuples(spans, leaps, errors), max_size=12))
def test_no_call_fails_when_the_clock_is_set_within_the_margins(
    behind: list[timedelta], jumps: list[tuple[timedelta, timedelta, timedelta]]
) -> None:
    world = started(behind)
    right = NOTHING
    for span, leap, error in jumps:
        # Time to renew what the last leap has brought near its end.
        world.run_until(world.elapsed + 3 * PROPAGATION + span)
        right += leap
        world.set_clock(right + error - world.offset)
        world.check()
    world.run_until(world.elapsed + 400 * DAY)


@CALM
@given(lags, st.lists(st.tuples(spans, any_jump, st.integers(0, 6)), min_size=1, max_size=12))
def test_whatever_happened_everything_verifies_again_in_time(
    behind: list[timedelta], blows: list[tuple[timedelta, timedelta, int]]
) -> None:
    world = started(behind)
    for span, jump, kind in blows:
        world.pass_(min(span, DAY))
        match kind:
            case 0 | 1:
                world.wipe(kind)
            case 2:
                world.set_clock(jump)
            case 3:
                world.replace_leaf()
            case 4:
                world.replace_ca()
            case 5:
                world.lose_ca()
                world.lose_leaf()
            case _:
                world.settle(cut_after=1)
        world.settle()
    end = world.elapsed + 3 * PROPAGATION
    while world.elapsed < end:
        world.settle()
        world.pass_(5 * SECOND)
    assert not world.gap()
    world.run_until(world.elapsed + 700 * DAY)


@FEW
@given(lags)
def test_ten_years_take_no_more_steps_than_needed(behind: list[timedelta]) -> None:
    world = started(behind)
    world.run_until(3650 * DAY)
    taken = Counter(type(step) for step in world.steps)
    # A CA of a year lasts 242 days, a leaf of 90 days 59.7; each CA asks for a leaf of its own.
    assert 14 <= taken[IssueCa] <= 17
    assert 60 <= taken[IssueLeaf] <= 80
    assert taken[Inject] <= 2 * taken[IssueCa]


@FEW
@given(lags, st.integers(10, 30), st.integers(1, 3))
def test_short_lives_leave_no_gap_either(behind: list[timedelta], leaves: int, cas: int) -> None:
    leaf_life = leaves * PROPAGATION
    world = started(behind, (cas * leaf_life, leaf_life), Settings(NAME, PROPAGATION, NOTHING))
    world.run_until(world.elapsed + 40 * leaf_life)
    assert sum(isinstance(step, IssueCa) for step in world.steps) > 10
