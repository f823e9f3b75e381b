"""Claims that no pod stands behind, and claims of pods that can no longer use them (R7)."""

from dataclasses import replace
from datetime import timedelta

import pytest

from common.domain import orphans, tokens
from common.domain.keys import BOOKING_REFERENCE
from common.domain.pod import PodPhase, PodView
from common.domain.reservation import Phase, Token
from tests.support.builders import NINE, a_pod, a_reservation

FRESH = tokens.mint(NINE, 1, "abc")
MINUTE = timedelta(seconds=60)
SECOND = timedelta(seconds=1)


def found(
    *pods: PodView, token: str = FRESH, after: timedelta = MINUTE, finished: tuple[str, ...] = ()
) -> orphans.Findings:
    return orphans.plan(a_reservation(claims={token: 1}), pods, finished, NINE + after)


def test_a_claim_is_left_alone_for_sixty_seconds() -> None:
    early = found(after=MINUTE - SECOND)
    assert (early.suspicion, early.release, early.next) == (None, None, NINE + MINUTE)


def test_a_claim_of_sixty_seconds_without_a_pod_is_suspected() -> None:
    late = found()
    assert late.suspicion is not None
    assert late.suspicion.tokens == (FRESH,)
    assert late.next is None


def test_a_token_that_we_never_wrote_is_suspected_at_once() -> None:
    assert found(token="whatever", after=timedelta()).suspicion is not None


def test_a_claim_with_a_live_pod_is_left_alone() -> None:
    assert found(a_pod(token=FRESH)) == orphans.Findings(None, None, (), None)


def test_a_claim_made_for_a_stored_pod_is_left_alone_before_the_pod_carries_it() -> None:
    pod = a_pod(uid="1-2-3")
    assert found(pod, token=tokens.for_pod(pod, 1)) == orphans.Findings(None, None, (), None)


@pytest.mark.parametrize("phase", [PodPhase.SUCCEEDED, PodPhase.FAILED])
def test_a_pod_that_has_ended_stands_behind_nothing(phase: PodPhase) -> None:
    assert found(a_pod(token=FRESH, phase=phase)).suspicion is not None


def test_a_pod_that_is_being_deleted_holds_its_units_until_it_is_gone() -> None:
    assert found(a_pod(token=FRESH, deleting=True, admitted=True)).suspicion is None


@pytest.mark.parametrize("mark", [FRESH, "abc"])
def test_a_claim_whose_pod_is_over_is_released_at_once(mark: str) -> None:
    over = found(after=timedelta(), finished=(mark,))
    assert over.release is not None
    assert (over.release.tokens, over.suspicion) == ((FRESH,), None)


def test_a_live_pod_counts_more_than_a_mark() -> None:
    assert found(a_pod(token=FRESH), finished=(FRESH,)).release is None


def test_a_waiting_pod_gives_back_its_claim_when_the_reservation_is_over() -> None:
    ended = a_reservation(claims={FRESH: 1}, phase=Phase.ENDED)
    pod = a_pod(token=FRESH, gated=True)
    findings = orphans.plan(ended, [pod], (), NINE)
    assert findings.withdrawals == (orphans.Withdrawal(ended, pod, FRESH),)


def test_a_running_pod_keeps_its_claim_when_the_reservation_is_over() -> None:
    ended = a_reservation(claims={FRESH: 1}, phase=Phase.CANCELED)
    running = a_pod(token=FRESH, admitted=True, node="node-1", phase=PodPhase.RUNNING)
    assert orphans.plan(ended, [running], (), NINE + 10 * MINUTE) == orphans.Findings(None, None, (), None)


def test_an_admitted_pod_that_is_not_bound_yet_keeps_its_claim() -> None:
    ended = a_reservation(claims={FRESH: 1}, phase=Phase.ENDED)
    assert orphans.plan(ended, [a_pod(token=FRESH, admitted=True)], (), NINE).withdrawals == ()


def test_a_claim_that_landed_after_the_pod_was_let_in_elsewhere_is_released() -> None:
    elsewhere = a_pod(token=FRESH, admitted=True, annotations={BOOKING_REFERENCE: "other"})
    here = replace(elsewhere, annotations={**elsewhere.annotations, BOOKING_REFERENCE: "sprint"})
    assert found(elsewhere).release is not None
    assert found(here).release is None


def test_a_fresh_list_clears_who_carries_the_token_or_is_who_it_was_made_for() -> None:
    pod = a_pod("b", uid="1-2-3")
    suspects = [FRESH, tokens.for_pod(pod, 1), Token("1-1-gone")]
    listed = [a_pod(token=FRESH), pod]
    assert orphans.still_orphaned(suspects, listed) == ("1-1-gone",)


def test_a_finished_pod_in_a_fresh_list_clears_nobody() -> None:
    assert orphans.still_orphaned([FRESH], [a_pod(token=FRESH, phase=PodPhase.SUCCEEDED)]) == (FRESH,)
