"""An asyncio loop in a thread of its own, so that synchronous tests can use asynchronous parts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
DEADLINE_S = 30.0


class LoopThread:
    """Runs coroutines for other threads."""

    def __init__(self, name: str) -> None:
        """Start the thread at once."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], deadline_s: float = DEADLINE_S) -> T:
        """Run the coroutine over there and wait for its result."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(deadline_s)
        except TimeoutError:
            future.cancel()
            raise

    def post(self, call: Callable[[], object]) -> None:
        """Have a function called over there, without waiting."""
        self._loop.call_soon_threadsafe(call)

    def stop(self) -> None:
        """Cancel what still runs, and end the thread."""
        if not self._thread.is_alive():
            return
        self.run(_cancel_others())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


async def _cancel_others() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=DEADLINE_S / 2)
