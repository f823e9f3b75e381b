"""A clock that stands still until a test moves it."""

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

from common.domain.time import Instant

NOON = datetime(2026, 12, 1, 12, tzinfo=UTC)


class FakeClock:
    """Implements the domain's `Clock` and what shells ask of `ServerClock`; `advance` wakes sleepers in order."""

    def __init__(self, now: Instant = NOON, uncertainty: timedelta = timedelta(milliseconds=20)) -> None:
        self._now = now
        self._uncertainty = uncertainty
        self._monotonic = 1000.0
        self._sleepers: list[tuple[Instant, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> Instant:
        return self._now

    def uncertainty(self) -> timedelta:
        return self._uncertainty

    def monotonic(self) -> float:
        return self._monotonic

    def until(self, instant: Instant) -> float:
        return max(0.0, (instant - self._now).total_seconds())

    async def sleep_until(self, instant: Instant) -> None:
        if instant <= self._now:
            return
        waiter = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (instant, next(self._order), waiter))
        await waiter

    async def sleep(self, seconds: float) -> None:
        await self.sleep_until(self._now + timedelta(seconds=seconds))

    def advance(self, by: timedelta | float) -> None:
        """Move both clocks; whoever slept until then wakes at the next turn of the loop."""
        step = by if isinstance(by, timedelta) else timedelta(seconds=by)
        self._now += step
        self._monotonic += step.total_seconds()
        while self._sleepers and self._sleepers[0][0] <= self._now:
            waiter = heapq.heappop(self._sleepers)[2]
            if not waiter.done():
                waiter.set_result(None)

    def set_uncertainty(self, uncertainty: timedelta) -> None:
        self._uncertainty = uncertainty
