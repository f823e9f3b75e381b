"""A kind of object kept in memory: list, then watch, for ever.

What ends a stream never ends the reflector: it says so, waits (`Backoff`) and goes on from the last version, or from a
new list where the API server has forgotten that version, or has not come to it yet. Cancelling `run` closes the stream.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, ValuesView
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import timedelta
from secrets import SystemRandom
from typing import Final, Generic, NoReturn, Protocol, TypeVar

import structlog

from common.adapters import metrics
from common.adapters.answers import Answer
from common.adapters.backoff import Backoff
from common.adapters.clock import monotonic
from common.adapters.history import History
from common.adapters.store import OnChange, Store, Versioned, number
from common.adapters.watching import Kind, Listing, decode_page, take_line
from common.domain.errors import ApiError, Gone, MalformedObject, NotFound, Refused, Throttled
from common.domain.reservation import ObjectKey

__all__ = ["Api", "Kind", "OnChange", "Reflector"]

T = TypeVar("T", bound=Versioned)

PAGE: Final = 500
IDLE_TIMEOUT_S: Final = 90.0
"""Bookmarks come about every minute: a watch that says nothing for longer is dead."""
_LIST_TIMEOUT_S = 60.0
_SERVER_TIMEOUT_S = (300, 600)
_TURN_S = 0.001
_QUICK_S = 1.0

_log = structlog.get_logger(__name__)
_random = SystemRandom()


class Api(Protocol):
    """What a reflector asks of `Kube`."""

    async def request(
        self, method: str, path: str, *, query: Mapping[str, str] | None = None, timeout_s: float
    ) -> Answer: ...

    def stream(
        self, path: str, query: Mapping[str, str], idle_timeout_s: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]: ...


class Reflector(Generic[T]):
    """Values by key, as fresh as the watch; `on_change` is called synchronously for every transition.

    What `on_change` raises is logged and counted, and ends nothing. `synced` turns True at the end of the first list,
    and is False again only from the end of a `history` until the next list; `stale_for` says how far behind the watch
    may be.
    """

    def __init__(  # noqa: PLR0913 - what to watch, whom to tell, and the ways to time that tests replace
        self,
        api: Api,
        kind: Kind[T],
        on_change: OnChange[T],
        *,
        label_selector: str = "",
        field_selector: str = "",
        idle_timeout_s: float = IDLE_TIMEOUT_S,
        page: int = PAGE,
        read: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        backoff: Backoff | None = None,
        history: History | None = None,
    ) -> None:
        self._api = api
        self._kind = kind
        self._handler = on_change
        self._selectors = {
            name: value
            for name, value in (("labelSelector", label_selector), ("fieldSelector", field_selector))
            if value
        }
        self._idle_timeout_s = idle_timeout_s
        self._page = page
        self._in_pages = True
        self._read = read
        self._sleep = sleep
        self._backoff = backoff or Backoff()
        self._store: Store[T] = Store(self._told)
        self._turn_ends = 0.0
        self._history = history or History()
        self._history.on_end(self._break_off)
        self._listed_in: int | None = None
        """The history that the last list belongs to; None: what is known is to be listed anew."""
        self._of: int | None = None
        """The history that what is known belongs to."""
        self._stream: asyncio.Timeout | None = None
        self._gone_at_once = True
        self._in_sync = asyncio.Event()
        self.last_event_at: float | None = None
        """Monotonic time of the last sign of life: a complete list, an event or a bookmark."""
        self.lists = 0
        self.malformed = 0
        self.handler_errors = 0
        metrics.REFLECTOR_AGE.labels(kind.name).set_function(self._age_s)
        for counter in (metrics.REFLECTOR_MALFORMED, metrics.REFLECTOR_HANDLER_ERRORS):
            # A series that is born with its first count has not increased, so nobody would be alerted of the first.
            counter.labels(kind.name)

    @property
    def synced(self) -> bool:
        return self._of == self._history.number

    async def wait_synced(self, timeout_s: float) -> None:
        """Raises TimeoutError."""
        async with asyncio.timeout(timeout_s):
            await self._in_sync.wait()

    def stale_for(self) -> timedelta:
        """Time since the last sign of life: up to a minute where nothing happens, `timedelta.max` before the first."""
        if self.last_event_at is None:
            return timedelta.max
        return timedelta(seconds=self._read() - self.last_event_at)

    def _age_s(self) -> float:
        return float("inf") if self.last_event_at is None else self._read() - self.last_event_at

    def get(self, key: ObjectKey) -> T | None:
        return self._store.get(key)

    def values(self) -> ValuesView[T]:
        """A live view: take a copy before awaiting in between."""
        return self._store.values()

    def __len__(self) -> int:
        return len(self._store)

    def apply(self, value: T) -> bool:
        """Read your own write: take in what a write of ours returned, unless what is known is newer.

        Not for a value that the selectors leave out: no event would ever take it away again.
        """
        return self._store.apply(self._kind.key(value), value)

    def bury(self, key: ObjectKey, version: str) -> None:
        """Forget what a write of ours deleted; events up to `version` (of the deletion) do not bring it back."""
        self._store.bury(key, number(version))

    async def run(self) -> NoReturn:
        """List and watch until cancelled."""
        while True:
            try:
                if self._listed:
                    await self._look_back()
                if not self._listed:
                    await self._list()
                if self._listed:
                    await self._watch()
            except (ApiError, MalformedObject) as error:
                await self._sleep(self._after(error))

    @property
    def _listed(self) -> bool:
        return self._listed_in == self._history.number

    async def _look_back(self) -> None:
        """Find out whether the store went back: a read without a version is never behind what was seen before it."""
        query = {**self._selectors, "limit": "1"}
        answer = await self._api.request("GET", self._kind.path, query=query, timeout_s=_LIST_TIMEOUT_S)
        version, progress = decode_page(answer.body).metadata.resource_version, self._store.progress
        if self._listed and 0 < number(version) < progress:
            _log.warning("reflector.store_went_back", kind=self._kind.name, known=progress, stored=version)
            self._history.end()

    def _break_off(self) -> None:
        """The history has ended, and what the stream says is no news of what is known."""
        self._in_sync.clear()
        if self._stream is not None:
            self._stream.reschedule(0.0)
            self._stream = None

    async def _list(self) -> None:
        listing, history = Listing(self._kind), self._history.number
        query = {**self._selectors, "limit": str(self._page)} if self._in_pages else dict(self._selectors)
        while True:
            answer = await self._api.request("GET", self._kind.path, query=query, timeout_s=_LIST_TIMEOUT_S)
            page = decode_page(answer.body)
            for item in page.items or ():
                self._count(listing.take(item))
                await self._breathe()
            if not page.metadata.continue_:
                break
            query["continue"] = page.metadata.continue_
        listing.finish(self._store, page.metadata.resource_version)
        self._in_pages = True
        self._listed_in = self._of = history
        self.lists += 1
        metrics.REFLECTOR_LISTS.labels(self._kind.name).inc()
        self._alive()
        if self.synced:
            self._in_sync.set()
        _log.info("reflector.listed", kind=self._kind.name, objects=len(self._store), version=self._store.progress)

    async def _watch(self) -> None:
        """One stream, until the API server ends it; a stream that ended at once is a failure."""
        begun = self._read()
        query = {
            **self._selectors,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self._store.progress),
            "timeoutSeconds": str(_random.randint(*_SERVER_TIMEOUT_S)),
        }
        async with self._until_history_ends(), self._api.stream(self._kind.path, query, self._idle_timeout_s) as lines:
            async for line in lines:
                self._count(take_line(self._kind, self._store, line))
                self._alive()
                self._backoff.reset()
                self._gone_at_once = True
                await self._breathe()
        if self._listed and self._read() - begun < _QUICK_S:
            await self._sleep(self._backoff.pause())

    @asynccontextmanager
    async def _until_history_ends(self) -> AsyncIterator[None]:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(None) as self._stream:
                    yield
        finally:
            self._stream = None

    def _after(self, error: ApiError | MalformedObject) -> float:
        """What an error means for the next attempt; returns the pause before it."""
        name = self._kind.name
        metrics.REFLECTOR_FAILURES.labels(name, type(error).__name__).inc()
        if isinstance(error, Gone) and not self._listed:
            self._in_pages = False  # the list outlived its own version: ask for it in one piece
        if isinstance(error, Gone | MalformedObject):
            self._listed_in = None
        loud = isinstance(error, Refused | NotFound | MalformedObject)
        if isinstance(error, Gone) and self._gone_at_once:
            # After an outage this is the ordinary answer, and the API server is there. A second one in a row waits.
            self._gone_at_once, pause = False, 0.0
        else:
            pause = self._backoff.pause(error.retry_after_s if isinstance(error, Throttled) else 0.0)
        (_log.error if loud else _log.info)(
            "reflector.interrupted",
            kind=name,
            error=type(error).__name__,
            message=str(error),
            next_in_s=round(pause, 2),
        )
        return pause

    def _told(self, old: T | None, new: T | None) -> None:
        try:
            self._handler(old, new)
        except Exception:  # noqa: BLE001 - whatever our own code does wrong, the next event must still come through
            self.handler_errors += 1
            metrics.REFLECTOR_HANDLER_ERRORS.labels(self._kind.name).inc()
            _log.exception("reflector.handler_failed", kind=self._kind.name)

    def _count(self, error: MalformedObject | None) -> None:
        if error is not None:
            self.malformed += 1
            metrics.REFLECTOR_MALFORMED.labels(self._kind.name).inc()
            _log.error("reflector.malformed", kind=self._kind.name, message=str(error))

    def _alive(self) -> None:
        self.last_event_at = self._read()

    async def _breathe(self) -> None:
        """Let others run once a millisecond: a busy watch must not hold the loop."""
        now = self._read()
        if now >= self._turn_ends:
            await asyncio.sleep(0)
            self._turn_ends = self._read() + _TURN_S
