"""The same pod in the same state goes the same way, in whatever order the state is told."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from common.domain import routing
from common.domain.reasons import Hold
from common.domain.reservation import Phase, Reservation, Wish
from common.domain.routing import Ask, Open
from common.domain.texts import Display
from tests.property.profile import CALM
from tests.support.builders import NINE, a_class, a_reservation, at, granted

CLASS = a_class()
LABELS: tuple[dict[str, str], ...] = ({}, {"team": "a"})
NAMES = ("a", "b", "c", "d", "e")


@st.composite
def reservations(draw: st.DrawFn) -> list[Reservation]:
    made = []
    for name in draw(st.lists(st.sampled_from(NAMES), unique=True)):
        start, length, units = draw(st.integers(6, 11)), draw(st.integers(0, 5)), draw(st.integers(1, 3))
        phase = draw(st.sampled_from([Phase.CONFIRMED, Phase.CONFIRMED, Phase.ACTIVE, Phase.PENDING, Phase.DENIED]))
        gpu_class = draw(st.sampled_from(["h100", "h100", "a100"]))
        cancel, pods = draw(st.integers(0, 5)) == 0, draw(st.sampled_from(LABELS))
        wish = Wish(gpu_class, units, at(start), at(start + length), pods=pods, cancel=cancel)
        promised = granted(units, start, start + length) if phase in (Phase.CONFIRMED, Phase.ACTIVE) else None
        used = draw(st.integers(0, units))
        claims = {f"1-{used}-x": used} if used and promised else {}
        made.append(a_reservation(name, phase=phase, wish=wish, granted=promised, claims=claims))
    return made


asks = st.builds(
    Ask,
    namespace=st.just("alice"),
    class_label=st.just("h100"),
    units=st.integers(1, 3),
    labels=st.sampled_from(LABELS),
    use_reservation=st.sampled_from(("", "", "a", "x")),
)
free = st.one_of(st.none(), st.integers(-1, 4))


def route(ask: Ask, mine: list[Reservation], free_units: int | None) -> Open | Hold:
    return routing.route(ask, CLASS, mine, NINE, free_units, Display())


@CALM
@given(asks, reservations(), free, st.randoms(use_true_random=False))
def test_routing_is_blind_to_the_order_of_reservations(
    ask: Ask, mine: list[Reservation], free_units: int | None, choice: st.DataObject
) -> None:
    shuffled = sorted(mine, key=lambda _: choice.random())  # type: ignore[attr-defined]
    assert route(ask, shuffled, free_units) == route(ask, mine, free_units)


@CALM
@given(asks, reservations(), free)
def test_whoever_gets_in_has_an_open_window_with_room(
    ask: Ask, mine: list[Reservation], free_units: int | None
) -> None:
    found = route(ask, mine, free_units)
    if isinstance(found, Open):
        reservation = found.reservation
        assert found.granted.window.contains(NINE)
        assert reservation.claimed + ask.units <= found.granted.units
        assert reservation.wish.gpu_class == "h100"
        assert ask.use_reservation in ("", reservation.name)
        assert reservation.wish.pods.items() <= ask.labels.items()


@CALM
@given(asks, reservations())
def test_who_is_held_could_go_nowhere(ask: Ask, mine: list[Reservation]) -> None:
    if isinstance(route(ask, mine, None), Hold):
        assert not any(
            r.wish.gpu_class == "h100"
            and r.granted is not None
            and r.granted.window.contains(NINE)
            and r.room >= ask.units
            and not r.wish.cancel
            and r.wish.pods.items() <= ask.labels.items()
            and ask.use_reservation in ("", r.name)
            for r in mine
        )


@CALM
@given(asks, reservations(), free)
def test_an_instant_at_which_things_change_lies_ahead(
    ask: Ask, mine: list[Reservation], free_units: int | None
) -> None:
    found = route(ask, mine, free_units)
    if isinstance(found, Hold) and found.until is not None:
        assert NINE < found.until <= NINE + timedelta(hours=7)
