"""What is to be looked at again: level-triggered, by value first, never the same key twice at once."""

import asyncio
import heapq
import itertools
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import IntEnum
from secrets import SystemRandom

import structlog

from common.domain.errors import ApiError, Throttled

log = structlog.get_logger(__name__)
_random = SystemRandom()

FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0
NOT_NOW_S = 0.25
LONGEST_YIELD_S = 1.0


class Kind(IntEnum):
    """What a key names; the smaller number goes first under load (releases, claims, phases, reasons)."""

    SLICE = 0
    RESERVATION = 1
    COUNT = 2
    CLASS = 3
    UNPLACED = 4
    TELLING = 5
    SUMMARY = 6


REASONS = frozenset({Kind.TELLING, Kind.SUMMARY})
"""What people read: these have a queue of their own with few workers, a bounded share of the write budget."""


@dataclass(frozen=True, slots=True)
class Work:
    """What to look at.

    SLICE, UNPLACED: namespace and class label. RESERVATION, SUMMARY: namespace and name. CLASS, COUNT: the class's name
    alone. TELLING: namespace and pod uid.
    """

    kind: Kind
    namespace: str
    name: str


class NotNow(ApiError):
    """Nothing may be decided at this moment, for nobody knows enough; it will pass, and is no fault of the key's."""

    def __init__(self) -> None:
        super().__init__(0, "the API server's time, or what it stores, is not known")


Handler = Callable[[Work], Awaitable[None]]


class WorkQueue:
    """Workers take the most valuable key; a key touched while it is in work is taken again afterwards.

    A handler that fails is tried again with jittered, doubling delays of `FIRST_RETRY_S` to `LAST_RETRY_S`, for as
    long as the key matters: every handler decides again from state.
    """

    def __init__(
        self,
        handlers: Mapping[Kind, Handler],
        workers: int,
        after: "WorkQueue | None" = None,
        certain: Callable[[], bool] = lambda: True,
    ) -> None:
        """Each key waits until the queue `after` is idle, for at most `LONGEST_YIELD_S`, and while not `certain`."""
        self._handlers = handlers
        self._certain = certain
        self._workers = workers
        self._after = after
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._heap: list[tuple[int, int, Work]] = []
        self._waiting: set[Work] = set()
        self._busy: set[Work] = set()
        self._again: set[Work] = set()
        self._failures: dict[Work, int] = {}
        self._count = itertools.count()
        self._ready = asyncio.Event()

    def touch(self, work: Work) -> None:
        """Look at it (again); called from the loop's thread only."""
        if work in self._busy:
            self._again.add(work)
        elif work not in self._waiting:
            self._waiting.add(work)
            heapq.heappush(self._heap, (work.kind, next(self._count), work))
            self._ready.set()
            self._quiet.clear()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._busy

    async def wait_idle(self, timeout_s: float) -> None:
        """Until nothing waits or is in work, or until the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._quiet.wait()

    def clear(self) -> None:
        """Forget what waits: leadership was lost, and its successor decides from state."""
        self._heap.clear()
        self._waiting.clear()
        self._again.clear()
        self._failures.clear()
        if self.idle:
            self._quiet.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(self._workers):
                tasks.create_task(self._work())

    async def _work(self) -> None:
        while True:
            while not self._heap:
                self._ready.clear()
                await self._ready.wait()
            if not self._certain():
                await asyncio.sleep(NOT_NOW_S)
                continue
            _, _, work = heapq.heappop(self._heap)
            self._waiting.discard(work)
            self._busy.add(work)
            try:
                if self._after is not None and not self._after.idle:
                    await self._after.wait_idle(LONGEST_YIELD_S)
                await self._handle(work)
            finally:
                self._busy.discard(work)
                if work in self._again:
                    self._again.discard(work)
                    self.touch(work)
                if self.idle:
                    self._quiet.set()

    async def _handle(self, work: Work) -> None:
        try:
            await self._handlers[work.kind](work)
            self._failures.pop(work, None)
        except NotNow:
            self._again.add(work)
        except ApiError as error:
            log.warning("work.failed", kind=work.kind.name, namespace=work.namespace, name=work.name, error=str(error))
            self._retry(work, error.retry_after_s if isinstance(error, Throttled) else 0.0)
        except Exception:
            log.exception("work.broken", kind=work.kind.name, namespace=work.namespace, name=work.name)
            self._retry(work)

    def _retry(self, work: Work, least_s: float = 0.0) -> None:
        failures = self._failures[work] = self._failures.get(work, 0) + 1
        ceiling = min(LAST_RETRY_S, FIRST_RETRY_S * 2 ** min(failures, 10))
        pause_s = least_s + ceiling * (0.5 + _random.random() / 2)
        asyncio.get_running_loop().call_later(pause_s, self._touch_again, work)

    def _touch_again(self, work: Work) -> None:
        """Unless the term in which it failed is over."""
        if work in self._failures:
            self.touch(work)
