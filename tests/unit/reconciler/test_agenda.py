"""Instants come due at the API server's clock, soonest first, each key once."""

import asyncio
from contextlib import suppress
from datetime import timedelta

from reconciler.agenda import Agenda
from tests.support.builders import NINE
from tests.support.clock import FakeClock
from tests.support.waiting import eventually

SOON, LATER = NINE + timedelta(seconds=1), NINE + timedelta(seconds=9)


def _agenda(clock: FakeClock | None = None) -> tuple[Agenda[str], list[str]]:
    due: list[str] = []
    return Agenda(clock or FakeClock(NINE), due.append), due


def test_nothing_is_due_before_its_instant() -> None:
    agenda, _ = _agenda()
    agenda.put("a", SOON)
    assert agenda.pop_due(SOON - timedelta(microseconds=1)) == []
    assert agenda.pop_due(SOON) == ["a"]


def test_the_soonest_appointment_of_a_key_stands_and_the_other_is_forgotten() -> None:
    agenda, _ = _agenda()
    agenda.put("a", LATER)
    agenda.put("a", SOON)
    agenda.put("a", LATER)
    assert agenda.pop_due(SOON) == ["a"]
    assert agenda.pop_due(LATER) == []


def test_keys_come_in_the_order_of_their_instants() -> None:
    agenda, _ = _agenda()
    agenda.put("later", LATER)
    agenda.put("soon", SOON)
    assert agenda.pop_due(LATER) == ["soon", "later"]


async def test_an_overdue_instant_is_told_at_once() -> None:
    agenda, due = _agenda()
    task = asyncio.create_task(agenda.run())
    await asyncio.sleep(0)
    agenda.put("late", NINE - timedelta(hours=1))
    await eventually(lambda: due)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert due == ["late"]
