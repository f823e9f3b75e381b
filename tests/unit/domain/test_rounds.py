"""One round of confirmation is shared among namespaces, whatever one of them sends."""

from typing import Any

from common.domain import rounds
from common.domain.reservation import Condition, Phase, Reservation
from tests.support.builders import HOUR, NINE, a_reservation, at

APPLYING = Condition("Applied", "Unknown", rounds.APPLYING, "being confirmed by a", NINE)


def wished(name: str, namespace: str = "alice", **fields: Any) -> Reservation:
    return a_reservation(name, namespace, **{"phase": Phase.PENDING, **fields})


def taken(*rows: Reservation, most_new: int = 4) -> list[str]:
    return [row.name for row in rounds.taken(rows, most_new)]


def test_of_more_than_a_round_takes_each_namespace_has_its_turn() -> None:
    flood = [wished(f"a{n}", created=NINE - HOUR) for n in range(9)]
    assert taken(*flood, wished("b0", "bob"), wished("b1", "bob"), wished("c0", "carol")) == ["a0", "b0", "c0", "a1"]


def test_within_its_turns_a_namespace_keeps_its_order() -> None:
    late, early = wished("late", created=NINE), wished("early", created=NINE - HOUR)
    standing = a_reservation("standing", created=NINE, generation=2)
    assert taken(late, early, standing) == ["standing", "early", "late"]


def test_standing_promises_of_one_namespace_are_no_more_than_its_share() -> None:
    flood = [a_reservation(f"a{n}", generation=2) for n in range(9)]
    assert taken(*flood, wished("b0", "bob")) == ["a0", "b0", "a1", "a2"]


def test_what_is_announced_is_always_in_the_round_and_takes_nobodys_turn() -> None:
    waiting = [wished(f"w{n}", phase=Phase.CONFIRMING) for n in range(6)]
    changing = a_reservation("change", generation=2, conditions=(APPLYING,))
    names = taken(*waiting, changing, wished("b0", "bob"))
    assert sorted(names[:7]) == ["change", *(f"w{n}" for n in range(6))]
    assert names[7:] == ["b0"]


def test_what_is_given_back_is_judged_before_what_is_asked_for() -> None:
    asks = a_reservation("asks", units=2, end=15, granted=a_reservation().granted)
    gives = a_reservation("gives", end=11, granted=a_reservation().granted)
    new = wished("new", created=at(1))
    assert [row.name for row in sorted([new, asks, gives], key=rounds.order)] == ["gives", "asks", "new"]
