"""Terms begin and end with the lease, and a process that stops while one winds down stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import common
from reconciler.terms import Terms
from tests.support.waiting import eventually

SHIPPED = ("webhook", "reconciler", "common", "certs")


class Leading:
    """Work of a term that needs a moment to end."""

    def __init__(self) -> None:
        self.begun = 0
        self.ending = asyncio.Event()
        self.may_end = asyncio.Event()

    async def lead(self) -> None:
        self.begun += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.ending.set()
            await self.may_end.wait()


async def test_a_term_ends_with_the_lease_and_another_begins() -> None:
    terms, leading = Terms(), Leading()
    leading.may_end.set()
    running = asyncio.create_task(terms.run(leading.lead))
    terms.changed(True)
    await eventually(lambda: leading.begun == 1)
    terms.changed(False)
    await eventually(leading.ending.is_set)
    terms.changed(True)
    await eventually(lambda: leading.begun == 2)
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()


async def test_a_stop_while_a_term_winds_down_is_not_lost() -> None:
    terms, leading = Terms(), Leading()
    running = asyncio.create_task(terms.run(leading.lead))
    terms.changed(True)
    await eventually(lambda: leading.begun == 1)
    terms.changed(False)
    await eventually(leading.ending.is_set)
    running.cancel()
    leading.may_end.set()
    await asyncio.wait({running}, timeout=2)
    assert running.done()


@pytest.mark.parametrize("package", SHIPPED)
def test_nothing_that_ships_swallows_a_cancellation(package: str) -> None:
    """Whoever awaits what it has cancelled and suppresses the error suppresses one of its own as well."""
    folder = Path(common.__file__).parents[1] / package
    assert [file.name for file in folder.rglob("*.py") if "CancelledError" in file.read_text()] == []
