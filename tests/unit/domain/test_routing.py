"""Which reservation a pod goes to, and what it waits for where it cannot go."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from common.domain import routing
from common.domain.gpu_class import GpuClass, Mode, WithoutReservation
from common.domain.reasons import Hold, Reason
from common.domain.reservation import MAX_CLAIMS, Phase, Reservation, Wish
from common.domain.routing import Ask, Open
from common.domain.texts import Display
from tests.support.builders import NINE, a_class, a_reservation, at, granted

H100 = a_class()


def ask(units: int = 1, **other: Any) -> Ask:
    values: dict[str, Any] = {"namespace": "alice", "class_label": "h100", "units": units, "labels": {}}
    return Ask(**(values | other))


def route(asked: Ask, *mine: Reservation, free: int | None = 8, gpu_class: GpuClass = H100) -> Open | Hold:
    return routing.route(asked, gpu_class, mine, NINE, free, Display())


def opened(asked: Ask, *mine: Reservation, free: int | None = 8) -> str:
    found = route(asked, *mine, free=free)
    assert isinstance(found, Open), found
    return found.reservation.name


def held(asked: Ask, *mine: Reservation, free: int | None = 8) -> Hold:
    found = route(asked, *mine, free=free)
    assert isinstance(found, Hold), found
    return found


def test_an_open_reservation_with_room_takes_the_pod() -> None:
    assert opened(ask(), a_reservation()) == "sprint"


def test_the_start_belongs_to_the_window_and_the_end_does_not() -> None:
    assert opened(ask(), a_reservation(start=9, end=13)) == "sprint"
    assert held(ask(), a_reservation(start=5, end=9)).reason is Reason.NO_RESERVATION


def test_a_reservation_used_up_holds_the_pod_and_names_the_holders() -> None:
    hold = held(ask(), a_reservation(units=1, claims={"1-1-x": 1}, used_by=("trainer-0",)))
    assert (hold.reason, hold.reservation, hold.until) == (Reason.RESERVATION_FULL, "sprint", at(13))
    assert "trainer-0" in hold.sentence


def test_a_reservation_that_opens_later_is_waited_for_with_its_instant() -> None:
    hold = held(ask(), a_reservation(start=10))
    assert (hold.reason, hold.until) == (Reason.WAITING_FOR_RESERVATION, at(10))


def test_big_enough_comes_before_sooner() -> None:
    small, big = a_reservation("small", units=1, start=10), a_reservation("big", units=4, start=11)
    assert held(ask(2), small, big).reservation == "big"


def test_when_none_is_big_enough_the_biggest_says_so() -> None:
    tiny, small = a_reservation("tiny", units=1), a_reservation("small", units=2, start=10)
    hold = held(ask(3), tiny, small)
    assert (hold.reason, hold.reservation) == (Reason.RESERVATION_TOO_SMALL, "small")


def test_open_with_room_comes_before_full_and_before_opening_soon() -> None:
    full = a_reservation("full", claims={"1-2-x": 2}, end=10)
    later, room = a_reservation("later", start=10), a_reservation("room")
    assert opened(ask(), full, later, room) == "room"


def test_the_earliest_end_comes_first_among_those_that_are_open() -> None:
    assert opened(ask(), a_reservation("long", end=14), a_reservation("short", end=10)) == "short"


def test_a_pod_that_waits_for_a_full_one_hears_when_the_next_one_opens() -> None:
    full, later = a_reservation("full", claims={"1-2-x": 2}), a_reservation("later", start=11, end=14)
    assert held(ask(), full, later).until == at(11)


def test_a_window_that_is_over_is_as_none() -> None:
    assert held(ask(), a_reservation(start=5, end=8)).reason is Reason.NO_RESERVATION


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.CONFIRMING])
def test_an_unconfirmed_reservation_is_waited_for(phase: Phase) -> None:
    assert held(ask(), a_reservation(phase=phase)).reason is Reason.RESERVATION_PENDING


def test_an_unconfirmed_one_that_is_too_small_does_not_hide_that_all_are() -> None:
    pending = a_reservation("pending", units=1, phase=Phase.PENDING)
    assert held(ask(3), a_reservation(units=2), pending).reason is Reason.RESERVATION_TOO_SMALL
    assert held(ask(3), pending).reason is Reason.RESERVATION_PENDING


def test_an_unconfirmed_one_that_is_big_enough_comes_before_too_small() -> None:
    pending = a_reservation("pending", units=4, phase=Phase.PENDING)
    assert held(ask(3), a_reservation(units=2), pending).reservation == "pending"


@pytest.mark.parametrize("phase", [Phase.ENDED, Phase.DENIED, Phase.CANCELED])
def test_a_finished_reservation_is_as_none(phase: Phase) -> None:
    assert held(ask(), a_reservation(phase=phase)).reason is Reason.NO_RESERVATION


def test_a_reservation_that_is_being_cancelled_takes_no_pod() -> None:
    cancelled = a_reservation(wish=Wish("h100", 2, at(9), at(13), cancel=True))
    assert held(ask(), cancelled).reason is Reason.NO_RESERVATION


def test_one_reservation_holds_no_more_pods_than_its_map_of_claims() -> None:
    claims = {f"1-1-{n}": 1 for n in range(MAX_CLAIMS)}
    hold = held(ask(), a_reservation(units=2000, claims=claims))
    assert hold.reason is Reason.RESERVATION_FRAGMENTED


def test_routing_reads_what_is_granted_and_never_the_spec() -> None:
    grown = replace(a_reservation(units=1), wish=Wish("h100", 4, at(9), at(13)))
    assert held(ask(2), grown).reason is Reason.RESERVATION_TOO_SMALL


def test_a_reservation_of_another_class_is_a_near_miss() -> None:
    hold = held(ask(), a_reservation("lab", gpu_class="a100"))
    assert hold.reason is Reason.NO_RESERVATION
    assert '(it has a100 "lab")' in hold.sentence


def test_a_class_whose_label_is_no_object_name_is_matched_by_its_name() -> None:
    big = a_class("a100-80gb", label="A100_80GB")
    mine = a_reservation(gpu_class="a100-80gb", start=5, end=8)
    hold = route(ask(class_label="A100_80GB"), mine, gpu_class=big)
    assert isinstance(hold, Hold)
    assert "it has" not in hold.sentence


def test_what_is_over_or_being_cancelled_is_no_near_miss() -> None:
    over = a_reservation("over", gpu_class="a100", start=5, end=8)
    going = a_reservation("going", gpu_class="a100", wish=Wish("a100", cancel=True, end=at(13)))
    assert "it has" not in held(ask(), over, going).sentence


def test_a_reservation_that_selects_pods_takes_only_those() -> None:
    team = replace(a_reservation(), wish=Wish("h100", 2, at(9), at(13), pods={"team": "a"}))
    assert opened(ask(labels={"team": "a", "more": "b"}), team) == "sprint"
    assert held(ask(labels={"team": "b"}), team).reason is Reason.NO_RESERVATION
    assert held(ask(), team).reason is Reason.NO_RESERVATION


def test_a_named_reservation_is_used_though_another_ends_sooner() -> None:
    short, long = a_reservation("short", end=10), a_reservation("long")
    assert opened(ask(use_reservation="long"), short, long) == "long"


def test_a_pod_that_names_a_full_reservation_waits_for_it_beside_an_empty_one() -> None:
    full, room = a_reservation("full", claims={"1-2-x": 2}), a_reservation("room")
    hold = held(ask(use_reservation="full"), full, room)
    assert (hold.reason, hold.reservation) == (Reason.RESERVATION_FULL, "full")


@pytest.mark.parametrize(
    ("named", "why"),
    [
        (a_reservation("other"), 'has no reservation "lab"'),
        (a_reservation("lab", gpu_class="a100"), 'reservation "lab" is for a100'),
        (
            replace(a_reservation("lab"), wish=Wish("h100", pods={"a": "b"}, end=at(13))),
            'reservation "lab" selects other',
        ),
        (a_reservation("lab", phase=Phase.DENIED), 'reservation "lab" was denied'),
        (a_reservation("lab", phase=Phase.CANCELED), 'reservation "lab" is canceled'),
        (a_reservation("lab", phase=Phase.ENDED), 'reservation "lab" is over'),
        (a_reservation("lab", start=5, end=8, phase=Phase.ACTIVE), 'reservation "lab" is over'),
    ],
)
def test_a_pod_whose_named_reservation_cannot_serve_hears_why(named: Reservation, why: str) -> None:
    hold = held(ask(use_reservation="lab"), named, a_reservation("room"))
    assert hold.reason is Reason.RESERVATION_NOT_FOUND
    assert why in hold.sentence


def test_a_foreign_gate_is_waited_for_first() -> None:
    hold = held(ask(foreign_gates=("kueue.x-k8s.io/admission",)), a_reservation())
    assert hold.reason is Reason.OTHER_GATE
    assert "kueue.x-k8s.io/admission" in hold.sentence


@pytest.mark.parametrize("free", [0, -3, 1])
def test_an_open_reservation_waits_while_the_nodes_are_short(free: int) -> None:
    hold = held(ask(2), a_reservation(), free=free)
    assert (hold.reason, hold.reservation) == (Reason.WAITING_FOR_UNITS, "sprint")


def test_nodes_that_nobody_has_counted_hold_no_pod_back() -> None:
    assert opened(ask(2), a_reservation(), free=None) == "sprint"


def test_a_pod_that_fits_on_no_single_node_waits_for_units() -> None:
    hold = routing.route(ask(2), H100, [a_reservation()], NINE, 8, Display(), largest_block=1)
    assert isinstance(hold, Hold)
    assert hold.reason is Reason.WAITING_FOR_UNITS


@pytest.mark.parametrize("start", [9, 10])
def test_equals_are_told_apart_by_name_whatever_their_order(start: int) -> None:
    twins = [a_reservation("b", start=start), a_reservation("a", start=start)]
    found = [route(ask(), *order) for order in (twins, twins[::-1])]
    names = [f.reservation if isinstance(f, Hold) else f.reservation.name for f in found]
    assert names == ["a", "a"]


def test_pods_are_held_only_where_the_class_is_enforced_and_says_hold() -> None:
    warned = a_class(mode_for=((frozenset({"jhub"}), Mode.WARN),))
    assert routing.held_in(warned, "alice")
    assert not routing.held_in(warned, "jhub")
    assert not routing.held_in(a_class(without_reservation=WithoutReservation.ALLOW), "alice")
    assert not routing.held_in(a_class(mode=Mode.OBSERVE), "alice")


def test_the_first_entry_for_a_namespace_decides_its_mode() -> None:
    modes = ((frozenset({"x"}), Mode.WARN), (frozenset({"x", "y"}), Mode.OBSERVE))
    both = a_class(mode_for=modes)
    assert [both.mode_in(n) for n in ("x", "y", "z")] == [Mode.WARN, Mode.OBSERVE, Mode.ENFORCE]


def test_a_promise_whose_phase_holds_none_has_no_room() -> None:
    odd = replace(a_reservation(phase=Phase.ENDED), granted=granted())
    assert odd.room == 0
    assert held(ask(), odd).reason is Reason.NO_RESERVATION


def test_over_budget_is_no_room() -> None:
    shrunk = a_reservation(units=1, claims={"1-2-x": 2})
    assert (shrunk.room, shrunk.occupied) == (0, 2)
    assert held(ask(), shrunk).until == NINE + timedelta(hours=4)
