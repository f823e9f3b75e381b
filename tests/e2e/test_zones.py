"""People in two zones read different times of day for the same instants; what programs read is UTC for both."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from common.domain import keys
from tests.e2e import reading
from tests.e2e.golden import Zone, golden, shape
from tests.e2e.stage import Stage, at_once

pytestmark = pytest.mark.controlplane

BERLIN = Zone(ZoneInfo("Europe/Berlin"))


def test_two_displays_show_the_same_instants(stage: Stage, stage_without_hold_policy: Stage) -> None:
    start = (stage.now() + timedelta(days=1)).replace(hour=9, minute=0, second=0)
    people = ((stage, Zone()), (stage_without_hold_policy, BERLIN))
    in_utc, in_berlin = at_once(lambda number: _everything_read(*people[number], start), range(2))
    assert in_utc == in_berlin == golden("zones")
    assert Zone().day(start) != BERLIN.day(start)


def _everything_read(stage: Stage, zone: Zone, start: datetime) -> str:
    """Every text with an instant in it, with the instants of this zone as placeholders."""
    stage.open(4)
    alice, bob = stage.tenant("alice"), stage.tenant("bob")
    end = start + timedelta(hours=4)
    alice.book_ahead("sprint", 3, start, duration=timedelta(hours=4))
    early = alice.create_pod("early")
    told = alice.waits_for("early", "WaitingForReservation")
    denied = bob.book("big", 2, start=start)
    bob.reaches("big", "Denied")
    texts = [
        *early.warnings,
        reading.annotations(told)[keys.HELD],
        reading.annotations(told)[keys.HELD_UNTIL],
        reading.condition(told)["message"],
        alice.event("Pod", "early", "WaitingForReservation")["message"],
        *denied.warnings,
        reading.condition(bob.reservation("big"), "Confirmed")["message"],
        str(alice.reservation()["status"]["granted"]),
    ]
    hour = start + timedelta(hours=1)
    known = {
        "class": stage.gpu_class,
        "start": zone.day(start),
        "end": zone.day(end),
        "start, bare": zone.day(start).rpartition(" ")[0],
        "clock of start": zone.clock(start, start).partition(" ")[0],
        "clock of start + 1 h": zone.clock(hour, start),
        "instant of start": reading.on_the_wire(start),
        "instant of end": reading.on_the_wire(end),
    }
    return shape("\n".join(texts), known)
