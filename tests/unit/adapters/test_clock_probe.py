"""Keeping the clock's bounds narrow."""

import asyncio
from datetime import timedelta

import pytest

from common.adapters.answers import Answer
from common.adapters.clock import ServerClock
from common.adapters.clock_probe import EVERY_S, NARROW, keep_clock, learn_time, once_known
from common.domain.errors import OutcomeUnknown
from common.domain.time import SURE
from tests.support.builders import NINE


class World:
    """A server whose clock is 0.4321 s past the whole second; sleeping and asking take virtual time."""

    def __init__(self, failures: int = 0) -> None:
        self.mono = 500.0
        self.clock = ServerClock(lambda: self.mono)
        self.asked: list[float] = []
        self.failures = failures
        self.rounds = 0

    async def sleep(self, seconds: float) -> None:
        self.mono += seconds
        if seconds >= EVERY_S:
            self.rounds += 1
            if self.rounds == 2:
                raise asyncio.CancelledError
        await asyncio.sleep(0)

    async def request(self, method: str, path: str, *, query: object = None, timeout_s: float) -> Answer:
        sent = self.mono
        self.asked.append(sent)
        self.mono += 0.004
        if self.failures:
            self.failures -= 1
            raise OutcomeUnknown(0, "cut")
        date = (NINE + timedelta(seconds=sent + 0.002 - 500 + 0.4321)).replace(microsecond=0)
        self.clock.sample(date, sent, self.mono)
        return Answer(200, b"{}")

    def stream(self, path: str, query: object, idle_timeout_s: float) -> None:
        raise NotImplementedError


@pytest.mark.parametrize("failures", [0, 3])
async def test_few_requests_make_it_narrow_and_few_keep_it_so(failures: int) -> None:
    world = World(failures)
    with pytest.raises(asyncio.CancelledError):
        await keep_clock(world, world.clock, sleep=world.sleep)  # type: ignore[arg-type]
    assert world.clock.uncertainty() <= NARROW + timedelta(milliseconds=10)
    assert world.asked[-1] - world.asked[0] > EVERY_S
    assert len(world.asked) <= 10 + failures


async def test_asking_until_the_time_is_known_takes_a_few_answers() -> None:
    world = World()
    task = asyncio.create_task(learn_time(world, world.clock))  # type: ignore[arg-type]
    while not task.done():
        world.mono += 0.3
        await asyncio.sleep(0.01)
    assert await task
    assert world.clock.uncertainty() <= SURE


async def test_asking_until_the_time_is_known_ends_though_all_answers_differ() -> None:
    world = World()
    world.clock.sample(NINE + timedelta(hours=5), world.mono, world.mono)
    assert not await learn_time(world, world.clock, patience_s=0.0)  # type: ignore[arg-type]


async def test_a_process_is_ready_once_the_time_is_known_and_stays_so_in_a_dispute() -> None:
    world = World()
    missing = once_known(world.clock)
    assert missing() is not None
    with pytest.raises(asyncio.CancelledError):
        await keep_clock(world, world.clock, sleep=world.sleep)  # type: ignore[arg-type]
    assert missing() is None
    world.clock.sample(NINE + timedelta(hours=2), world.mono - 0.004, world.mono)
    assert world.clock.uncertainty() > SURE
    assert missing() is None
