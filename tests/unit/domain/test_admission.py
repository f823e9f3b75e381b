"""Which waiting pods get in, in what order, and what the others hear."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from common.domain import admission, tokens
from common.domain.admission import Admit, LetGo, Slice, Tell
from common.domain.gpu_class import GpuClass, Mode, WithoutReservation
from common.domain.keys import GATE, USE_RESERVATION
from common.domain.placement import NodeRoom
from common.domain.pod import Placement, PodPhase, PodView
from common.domain.reasons import Reason
from common.domain.reservation import Phase, Reservation, Token, Wish
from common.domain.texts import Display
from tests.support.builders import NINE, a_class, a_node, a_pod, a_reservation, at

LATE = tokens.mint(NINE, 1, "abc")
ALLOW = a_class(without_reservation=WithoutReservation.ALLOW)


def waiting(name: str, *, after: int = 0, **other: Any) -> PodView:
    return a_pod(name, gated=True, created=NINE + timedelta(seconds=after), **other)


def planned(
    *pods: PodView,
    reservations: Sequence[Reservation] = (a_reservation(),),
    free: int | None = 8,
    rooms: Sequence[NodeRoom] = (NodeRoom(a_node(), 8),),
    gpu_class: GpuClass | None = None,
    siblings: dict[str, frozenset[str]] | None = None,
    copied: frozenset[Token] = frozenset(),
) -> list[Admit | Tell | LetGo]:
    slice_ = Slice(gpu_class or a_class(), reservations, pods, free, rooms, copied, siblings or {})
    return admission.plan(slice_, NINE, Display())


def story(actions: Sequence[Admit | Tell | LetGo]) -> dict[str, str]:
    """Pod name to what happens to it."""
    return {
        a.pod.name: a.reservation.name if isinstance(a, Admit) else a.hold.reason if isinstance(a, Tell) else "let go"
        for a in actions
    }


def test_pods_get_in_in_the_order_of_their_creation() -> None:
    pods = (waiting("c", after=2), waiting("a", after=3), waiting("b", after=1))
    assert story(planned(*pods)) == {"b": "sprint", "c": "sprint", "a": Reason.RESERVATION_FULL}


def test_pods_of_one_instant_get_in_by_name() -> None:
    assert [a.pod.name for a in planned(waiting("b"), waiting("a"))] == ["a", "b"]


def test_each_pod_that_gets_in_uses_up_room_for_those_behind_it() -> None:
    pods = (waiting("a", gpus=2), waiting("b", gpus=1))
    assert story(planned(*pods)) == {"a": "sprint", "b": Reason.RESERVATION_FULL}


def test_a_small_pod_gets_in_past_a_big_one_that_waits() -> None:
    full = a_reservation(units=4, claims={"1-3-x": 3})
    assert story(planned(waiting("a", gpus=2), waiting("b"), reservations=[full])) == {
        "a": Reason.RESERVATION_FULL,
        "b": "sprint",
    }


def test_free_units_on_nodes_are_used_up_within_a_pass() -> None:
    wide = [a_reservation(units=8)]
    told = story(planned(waiting("a"), waiting("b"), reservations=wide, free=1))
    assert told == {"a": "sprint", "b": Reason.WAITING_FOR_UNITS}


def test_rooms_on_nodes_are_used_up_within_a_pass_from_the_fullest_on() -> None:
    rooms = [NodeRoom(a_node("a"), 3), NodeRoom(a_node("b"), 2)]
    pods = (waiting("p1", gpus=2), waiting("p2", gpus=3, after=1), waiting("p3", after=2))
    told = story(planned(*pods, reservations=[a_reservation(units=8)], free=8, rooms=rooms))
    assert told == {"p1": "sprint", "p2": "sprint", "p3": Reason.WAITING_FOR_UNITS}


def test_while_nobody_has_counted_nodes_hold_no_pod_back() -> None:
    assert story(planned(waiting("a"), free=None, rooms=())) == {"a": "sprint"}


def test_a_pod_whose_nodes_are_full_waits_for_those() -> None:
    rooms = [NodeRoom(a_node("a", labels={"zone": "a"}), 0), NodeRoom(a_node("b"), 8)]
    action = planned(waiting("p", placement=Placement({"zone": "a"})), rooms=rooms)[0]
    assert isinstance(action, Tell)
    assert (action.hold.reason, action.hold.reservation) == (Reason.WAITING_FOR_NODE, "sprint")


def test_the_claim_of_a_stored_pod_has_the_token_of_its_uid() -> None:
    pod = waiting("a")
    action = planned(pod)[0]
    assert isinstance(action, Admit)
    assert (action.token, action.units, action.claimed) == (tokens.for_pod(pod, 1), 1, False)


def test_a_late_claim_that_stands_opens_its_pod_though_the_reservation_is_full() -> None:
    full = a_reservation(units=1, claims={LATE: 1})
    action = planned(waiting("a", token=LATE), reservations=[full])[0]
    assert isinstance(action, Admit)
    assert (action.token, action.claimed) == (LATE, True)


def test_a_claim_that_a_fallen_leader_made_opens_its_pod() -> None:
    pod = waiting("a")
    full = a_reservation(units=1, claims={tokens.for_pod(pod, 1): 1})
    action = planned(pod, reservations=[full])[0]
    assert isinstance(action, Admit)
    assert action.claimed


def test_a_late_claim_that_does_not_stand_is_asked_for_again_with_its_token() -> None:
    action = planned(waiting("a", token=LATE))[0]
    assert isinstance(action, Admit)
    assert (action.token, action.claimed) == (LATE, False)


def test_a_token_that_several_pods_carry_opens_none_of_them() -> None:
    full = a_reservation(units=1, claims={LATE: 1})
    pods = (waiting("a", token=LATE), waiting("b", token=LATE))
    assert story(planned(*pods, reservations=[full], copied=frozenset({LATE}))) == {
        "a": Reason.RESERVATION_FULL,
        "b": Reason.RESERVATION_FULL,
    }


@pytest.mark.parametrize("token", [tokens.mint(NINE, 2, "abc"), Token("no-token-of-ours")])
def test_a_token_for_other_units_is_not_used_again(token: Token) -> None:
    action = planned(waiting("a", token=token))[0]
    assert isinstance(action, Admit)
    assert action.token != token


@pytest.mark.parametrize(
    "not_open",
    [
        a_reservation(units=1, claims={LATE: 1}, start=10),
        a_reservation(units=1, claims={LATE: 1}, start=5, end=9),
        a_reservation(units=1, claims={LATE: 1}, phase=Phase.ENDED),
        a_reservation(units=1, claims={LATE: 1}, wish=Wish("h100", end=at(13), cancel=True)),
        a_reservation(units=2, claims={LATE: 2}),
    ],
)
def test_a_standing_claim_opens_nothing_outside_its_window_or_for_other_units(not_open: Reservation) -> None:
    action = planned(waiting("a", token=LATE), reservations=[not_open])[0]
    assert isinstance(action, Tell)


def test_pods_that_get_in_on_standing_claims_use_up_rooms_and_no_room() -> None:
    reservation = a_reservation(units=2, claims={LATE: 1})
    pods = (waiting("a", token=LATE), waiting("b", after=1))
    rooms = [NodeRoom(a_node(), 1)]
    told = story(planned(*pods, reservations=[reservation], rooms=rooms))
    assert told == {"a": "sprint", "b": Reason.WAITING_FOR_UNITS}


def test_a_foreign_gate_is_waited_for_even_with_a_standing_claim() -> None:
    pod = replace(waiting("a", token=LATE), gates=(GATE, "other/gate"))
    assert story(planned(pod, reservations=[a_reservation(claims={LATE: 1})])) == {"a": Reason.OTHER_GATE}


def test_a_named_reservation_is_read_from_the_pod() -> None:
    pod = waiting("a", annotations={USE_RESERVATION: "lab"})
    assert story(planned(pod, reservations=[a_reservation(), a_reservation("lab")])) == {"a": "lab"}
    assert story(planned(pod)) == {"a": Reason.RESERVATION_NOT_FOUND}


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.WARN])
def test_a_class_that_is_not_enforced_lets_everybody_go(mode: Mode) -> None:
    assert story(planned(waiting("a"), a_pod("b"), gpu_class=a_class(mode=mode))) == {"a": "let go"}


def test_the_mode_of_the_namespace_decides() -> None:
    watched = a_class(mode_for=((frozenset({"alice"}), Mode.WARN),))
    assert story(planned(waiting("a"), gpu_class=watched)) == {"a": "let go"}


def test_where_pods_may_go_without_a_reservation_the_open_one_still_lets_them_in() -> None:
    assert story(planned(a_pod("a"), gpu_class=ALLOW)) == {"a": "sprint"}


def test_where_pods_may_go_without_a_reservation_none_is_held() -> None:
    assert story(planned(waiting("a"), a_pod("b"), reservations=(), gpu_class=ALLOW)) == {"a": "let go"}


def test_where_pods_may_go_without_a_reservation_a_full_node_holds_none() -> None:
    blocked = waiting("a", placement=Placement({"zone": "a"}))
    assert story(planned(blocked, gpu_class=ALLOW)) == {"a": "let go"}


def test_a_gated_pod_that_asks_for_no_unit_is_let_go() -> None:
    assert story(planned(waiting("a", gpus=0), a_pod("b", gpus=0))) == {"a": "let go"}


def test_a_rolling_update_hears_that_it_waits_for_its_own_pods() -> None:
    full = [a_reservation(claims={"1-2-x": 2})]
    pod = waiting("a", owner="Deployment/web")
    own, others = frozenset({"Deployment/web"}), frozenset({"Deployment/web", "Job/x"})
    assert story(planned(pod, reservations=full, siblings={"sprint": own})) == {"a": Reason.HELD_BY_OWN_SIBLING}
    assert story(planned(pod, reservations=full, siblings={"sprint": others})) == {"a": Reason.RESERVATION_FULL}
    assert story(planned(pod, reservations=full)) == {"a": Reason.RESERVATION_FULL}


def test_the_pods_of_a_job_replace_nobody() -> None:
    full = [a_reservation(claims={"1-2-x": 2})]
    pod = waiting("a", owner="Job/train")
    told = story(planned(pod, reservations=full, siblings={"sprint": frozenset({"Job/train"})}))
    assert told == {"a": Reason.RESERVATION_FULL}


def test_bare_pods_are_no_siblings() -> None:
    full = [a_reservation(claims={"1-2-x": 2})]
    assert story(planned(waiting("a"), reservations=full, siblings={"sprint": frozenset({""})})) == {
        "a": Reason.RESERVATION_FULL
    }


@pytest.mark.parametrize(
    ("pod", "waits"),
    [
        (a_pod(gated=True), True),
        (a_pod(), True),
        (a_pod(admitted=True), False),
        (a_pod(node="node-1"), False),
        (a_pod(gated=True, deleting=True), False),
        (a_pod(phase=PodPhase.SUCCEEDED), False),
        (a_pod(mirror=True), False),
    ],
)
def test_a_pod_waits_while_it_may_still_be_let_in(pod: PodView, *, waits: bool) -> None:
    assert admission.waits(pod) is waits


def test_nobody_waiting_is_nothing_to_do() -> None:
    assert planned() == []
