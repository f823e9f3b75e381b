"""Runs the work of a term while this process leads, and stops it when it does not."""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from common.domain.errors import ApiError

log = structlog.get_logger(__name__)

RETRY_S = 0.5


class Terms:
    def __init__(self) -> None:
        self._leading = asyncio.Event()
        self._changed = asyncio.Event()

    def changed(self, leads: bool) -> None:  # noqa: FBT001 - the answer to "do I lead?"
        """Called on the loop."""
        if leads:
            self._leading.set()
        else:
            self._leading.clear()
        self._changed.set()

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """For ever: a term begins with the lease and is cancelled when the lease is lost."""
        while True:
            await self._leading.wait()
            self._changed.clear()
            term = asyncio.ensure_future(lead())
            change = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait({term, change}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                change.cancel()
                term.cancel()
            # Not `await term`: to swallow its cancellation would swallow one of ours that comes meanwhile.
            await asyncio.wait({term})
            if not term.cancelled():
                await self._ended(term)

    async def _ended(self, term: asyncio.Future[None]) -> None:
        """A term ends by itself only when its beginning failed; anything else is a fault that must be seen."""
        error = term.exception()
        if not isinstance(error, ApiError):
            if error is not None:
                raise error
            return
        log.warning("leader.start_failed", error=str(error))
        await asyncio.sleep(RETRY_S)
