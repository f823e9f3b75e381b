"""Which phase comes when, and when it is next worth a look."""

from dataclasses import replace
from datetime import timedelta

import pytest

from common.domain import windows
from common.domain.reservation import Granted, Phase, Wish
from common.domain.time import Instant, Window
from common.domain.windows import KEEP_WITHOUT_CLASS, Due, PhaseChange, Removal
from tests.support.builders import NINE, a_class, a_reservation, at

SECOND = timedelta(seconds=1)
KEEP = timedelta(hours=336)


@pytest.mark.parametrize(
    ("phase", "now", "to", "next_"),
    [
        (Phase.CONFIRMED, at(9) - SECOND, None, at(9)),
        (Phase.CONFIRMED, at(9), Phase.ACTIVE, at(13)),
        (Phase.ACTIVE, at(9), None, at(13)),
        (Phase.ACTIVE, at(13) - SECOND, None, at(13)),
        (Phase.ACTIVE, at(13), Phase.ENDED, None),
        (Phase.CONFIRMED, at(13), Phase.ENDED, None),
        (Phase.PENDING, at(13), None, None),
        (Phase.CONFIRMING, at(13), None, None),
    ],
)
def test_a_reservation_steps_through_its_phases_at_their_instants(
    phase: Phase, now: Instant, to: Phase | None, next_: Instant | None
) -> None:
    due = windows.plan(a_reservation(phase=phase), a_class(), now)
    assert (due.action.to if isinstance(due.action, PhaseChange) else None, due.next) == (to, next_)


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.CONFIRMING, Phase.CONFIRMED, Phase.ACTIVE])
def test_a_wish_to_cancel_is_followed_from_every_phase_that_is_not_the_last(phase: Phase) -> None:
    cancelled = replace(a_reservation(phase=phase), wish=Wish("h100", end=at(13), cancel=True))
    action = windows.plan(cancelled, a_class(), NINE).action
    assert isinstance(action, PhaseChange)
    assert action.to is Phase.CANCELED


@pytest.mark.parametrize("phase", [Phase.ENDED, Phase.DENIED, Phase.CANCELED])
def test_the_last_phases_are_never_left(phase: Phase) -> None:
    cancelled = replace(a_reservation(phase=phase, finished=NINE), wish=Wish("h100", end=at(13), cancel=True))
    assert windows.plan(cancelled, a_class(), at(20)) == Due(next=NINE + KEEP)


def test_a_finished_reservation_goes_when_it_has_been_kept_long_enough() -> None:
    ended = a_reservation(phase=Phase.ENDED, finished=NINE)
    assert windows.plan(ended, a_class(), NINE + KEEP - SECOND) == Due(next=NINE + KEEP)
    assert windows.plan(ended, a_class(), NINE + KEEP) == Due(Removal(ended))


def test_a_finished_reservation_stays_while_a_pod_holds_a_claim() -> None:
    ended = a_reservation(phase=Phase.ENDED, finished=NINE, claims={"1-1-x": 1})
    assert windows.plan(ended, a_class(), NINE + KEEP) == Due()


def test_a_finished_reservation_of_an_unknown_class_goes_after_two_weeks() -> None:
    ended = a_reservation(phase=Phase.ENDED, finished=NINE)
    assert windows.plan(ended, None, NINE + KEEP_WITHOUT_CLASS - SECOND) == Due(next=NINE + KEEP_WITHOUT_CLASS)
    assert windows.plan(ended, None, NINE + KEEP_WITHOUT_CLASS) == Due(Removal(ended))


def test_a_window_of_zero_length_ends_without_having_opened() -> None:
    empty = replace(a_reservation(), granted=Granted(Window(NINE, NINE), 1))
    action = windows.plan(empty, a_class(), NINE).action
    assert isinstance(action, PhaseChange)
    assert action.to is Phase.ENDED


def test_a_promise_is_judged_again_when_its_spec_has_changed() -> None:
    assert windows.changed(a_reservation(generation=2))
    assert not windows.changed(a_reservation())
    assert not windows.changed(a_reservation(generation=2, phase=Phase.PENDING))
