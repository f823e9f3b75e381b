"""Instants at which something is due: a heap and one timer, so that nothing polls between now and a boundary."""

import asyncio
import heapq
import itertools
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from common.domain.time import Clock, Instant

K = TypeVar("K", bound=Hashable)

LONGEST_SLEEP_S, EXACT_S = 1.0, 0.02
"""The clock's bound moves with every answer of the API server, so a sleep is halved and measured again on the way; and
when a dispute about the time ends, what was overdue is not to wait for long."""


class Agenda(Generic[K]):
    """The soonest instant of each key; `due` is called on the loop once the API server's clock has reached it."""

    def __init__(self, clock: Clock, due: Callable[[K], None]) -> None:
        self._clock = clock
        self._due = due
        self._heap: list[tuple[Instant, int, K]] = []
        self._soonest: dict[K, Instant] = {}
        self._count = itertools.count()
        self._changed = asyncio.Event()

    def put(self, key: K, instant: Instant) -> None:
        """Look at `key` at `instant`; an earlier appointment of the same key stands."""
        before = self._soonest.get(key)
        if before is not None and before <= instant:
            return
        self._soonest[key] = instant
        heapq.heappush(self._heap, (instant, next(self._count), key))
        if self._heap[0][2] == key:
            self._changed.set()

    def __len__(self) -> int:
        return len(self._soonest)

    def pop_due(self, now: Instant) -> list[K]:
        keys: list[K] = []
        while self._heap and self._heap[0][0] <= now:
            instant, _, key = heapq.heappop(self._heap)
            if self._soonest.get(key) == instant:
                del self._soonest[key]
                keys.append(key)
        return keys

    async def run(self) -> None:
        while True:
            self._changed.clear()
            for key in self.pop_due(self._clock.now()):
                self._due(key)
            try:
                async with asyncio.timeout(self._wait_s()):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _wait_s(self) -> float:
        if not self._heap:
            return LONGEST_SLEEP_S
        ahead = (self._heap[0][0] - self._clock.now()).total_seconds()
        return min(LONGEST_SLEEP_S, max(0.0, ahead if ahead < EXACT_S else ahead / 2))
