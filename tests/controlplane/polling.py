"""Waiting for a condition with a deadline: the only way in which tests wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

FIRST_PAUSE_S = 0.01
LONGEST_PAUSE_S = 0.2


class NotInTimeError(TimeoutError):
    """A condition did not come true before its deadline."""

    def __init__(self, what: str, deadline_s: float, last: object, error: Exception | None) -> None:
        """Say what was awaited, for how long, and what was seen last."""
        seen = f"last error: {error!r}" if error is not None else f"last seen: {last!r}"
        super().__init__(f"{what}: not within {deadline_s:g} s ({seen[:2000]})")


def until(
    condition: Callable[[], T | None],
    deadline_s: float,
    what: str,
    *,
    retry_on: tuple[type[Exception], ...] = (),
) -> T:
    """Call the condition until its result is true and return that; errors of the listed types count as not yet."""
    end = time.monotonic() + deadline_s
    pause = FIRST_PAUSE_S
    while True:
        last, error = None, None
        try:
            last = condition()
        except retry_on as caught:
            error = caught
        if last:
            return last
        if time.monotonic() >= end:
            raise NotInTimeError(what, deadline_s, last, error)
        time.sleep(min(pause, max(0.0, end - time.monotonic())))
        pause = min(pause * 1.5, LONGEST_PAUSE_S)


async def until_async(condition: Callable[[], Awaitable[T | None]], deadline_s: float, what: str) -> T:
    """Await the condition until its result is true, and return that result."""
    end = time.monotonic() + deadline_s
    pause = FIRST_PAUSE_S
    while True:
        last = await condition()
        if last:
            return last
        if time.monotonic() >= end:
            raise NotInTimeError(what, deadline_s, last, None)
        await asyncio.sleep(min(pause, max(0.0, end - time.monotonic())))
        pause = min(pause * 1.5, LONGEST_PAUSE_S)


def never(condition: Callable[[], T], for_s: float, what: str) -> None:
    """Watch for a while that the condition stays false; fails as soon as it does not."""
    end = time.monotonic() + for_s
    while time.monotonic() < end:
        seen = condition()
        if seen:
            message = f"{what}: came true, though it must not ({seen!r})"
            raise AssertionError(message)
        time.sleep(min(LONGEST_PAUSE_S, max(0.0, end - time.monotonic())))
