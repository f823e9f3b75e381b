"""Several ask for the same units at the same instant: the units are promised once, and everybody else hears numbers."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.history import History
from tests.e2e.stage import Stage, at_once

pytestmark = pytest.mark.controlplane

DEADLINE_S = 30.0
ASKING = 50


def test_of_two_reservations_for_the_last_units_one_is_confirmed_and_one_denied_with_numbers_and_first_slot(
    stage: Stage,
) -> None:
    stage.open(3)
    rivals = [stage.tenant("alice"), stage.tenant("bob")]
    nine = (stage.now() + timedelta(days=1)).replace(hour=9, minute=0, second=0)
    with History(stage.admin, stage.gpu_class, 3):
        rivals[0].book_ahead("before", 1, nine)
        at_once(lambda number: rivals[number].book("last", 2, start=nine), range(2))
        until(
            lambda: sorted(reading.phase(rival.reservation("last")) for rival in rivals) == ["Confirmed", "Denied"],
            DEADLINE_S,
            "one is Confirmed and one is Denied",
        )
    denied = next(rival for rival in rivals if reading.phase(rival.reservation("last")) == "Denied")
    day = f"{nine:%Y-%m-%d}"
    expected = (
        f"{stage.gpu_class}: 2 units asked {day} 09:00–10:00 UTC, only 0 free from 09:00; "
        f"first slot for 2 units × 1h: {day} 10:00 UTC"
    )
    verdict = reading.condition(denied.reservation("last"), "Confirmed")
    assert (verdict["status"], verdict["reason"], verdict["message"]) == ("False", "NoCapacity", expected)
    assert denied.reservation("last")["status"]["message"] == expected


def test_of_fifty_reservations_for_the_last_three_units_exactly_three_are_confirmed(stage: Stage) -> None:
    stage.open(4)
    tenants = [stage.tenant("alice"), stage.tenant("bob")]
    with History(stage.admin, stage.gpu_class, 4):
        tenants[0].hold_open("before", 1)
        at_once(lambda number: tenants[number % 2].book(f"last-{number}"), range(ASKING))

        def decided() -> bool:
            phases = [reading.phase(tenants[number % 2].reservation(f"last-{number}")) for number in range(ASKING)]
            return sorted(phases) == ["Active"] * 3 + ["Denied"] * (ASKING - 3)

        until(decided, DEADLINE_S, "three are Active and the others are Denied")
    numbers = re.compile(r"1 unit asked .+ UTC, only 0 free from .+; first slot for 1 unit × 1h: .+ UTC$")
    for number in range(ASKING):
        reservation = tenants[number % 2].reservation(f"last-{number}")
        if reading.phase(reservation) == "Denied":
            assert numbers.search(reservation["status"]["message"]), reservation["status"]["message"]
