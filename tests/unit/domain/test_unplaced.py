"""Pods that were let in and that no node took are overdue once no claim of theirs holds a promise, and not before."""

from typing import Any

import pytest

from common.domain.gpu_class import GpuClass, Mode
from common.domain.pod import PodPhase, PodView
from common.domain.reservation import Phase, Reservation
from common.domain.unplaced import overdue
from tests.support.builders import HOUR, NINE, a_class, a_pod, a_reservation

TOKEN = "1796115600-1-abc"
ENDED = a_reservation(phase=Phase.ENDED, claims={TOKEN: 1})
CLASS = a_class()


def let_in(name: str = "trainer-0", **other: Any) -> PodView:
    return a_pod(name, **{"admitted": True, "token": TOKEN, **other})


def found(*pods: PodView, among: tuple[Reservation, ...] = (ENDED,), gpu_class: GpuClass = CLASS) -> list[str]:
    return [pod.name for pod in overdue(pods, among, gpu_class)]


@pytest.mark.parametrize("phase", [Phase.ENDED, Phase.CANCELED])
def test_a_pod_whose_reservation_is_over_is_overdue(phase: Phase) -> None:
    assert found(let_in(), among=(a_reservation(phase=phase, claims={TOKEN: 1}),)) == ["trainer-0"]


def test_a_pod_whose_reservation_was_deleted_is_overdue() -> None:
    assert found(let_in(), among=()) == ["trainer-0"]


@pytest.mark.parametrize("phase", [Phase.CONFIRMED, Phase.ACTIVE])
def test_a_pod_whose_claim_holds_a_promise_is_not_overdue(phase: Phase) -> None:
    assert found(let_in(), among=(a_reservation(phase=phase, claims={TOKEN: 1}),)) == []


def test_a_claim_on_the_next_reservation_keeps_the_pod() -> None:
    following = a_reservation("next", start=13, end=17, claims={TOKEN: 1})
    assert found(let_in(), among=(ENDED, following)) == []


def test_another_reservation_of_the_same_name_keeps_no_pod_that_has_no_claim_in_it() -> None:
    assert found(let_in(), among=(a_reservation(phase=Phase.ACTIVE, claims={"1796115600-1-new": 1}),)) == ["trainer-0"]


@pytest.mark.parametrize(
    "pod",
    [
        let_in(node="node-1"),
        let_in(deleting=True),
        let_in(phase=PodPhase.SUCCEEDED),
        let_in(phase=PodPhase.FAILED),
        let_in(mirror=True),
        let_in(gated=True),
        let_in(admitted=False),
        let_in(token=""),
    ],
    ids=["placed", "on its way out", "succeeded", "failed", "static", "held", "not tolerating", "never let in by us"],
)
def test_a_pod_that_cannot_be_placed_by_our_leave_is_left_alone(pod: PodView) -> None:
    assert found(pod) == []


def test_a_gate_of_somebody_else_keeps_no_pod_from_being_overdue() -> None:
    assert found(let_in(gates=("example.com/quota",))) == ["trainer-0"]


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.WARN])
def test_where_the_class_is_not_enforced_nothing_is_touched(mode: Mode) -> None:
    assert found(let_in(), gpu_class=a_class(mode=mode)) == []
    assert found(let_in(), gpu_class=a_class(mode_for=((frozenset({"alice"}), mode),))) == []


def test_the_oldest_goes_first() -> None:
    older = let_in("z", created=NINE - HOUR)
    assert found(let_in("b"), older, let_in("a")) == ["z", "a", "b"]
