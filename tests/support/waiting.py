"""Waiting for a condition with a deadline."""

import asyncio
import time
from collections.abc import Callable

DEADLINE_S = 10.0


async def eventually(condition: Callable[[], object], what: str = "", deadline_s: float = DEADLINE_S) -> None:
    """Return once the condition holds; raises AssertionError when it does not within the deadline."""
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            msg = f"not within {deadline_s:g} s: {what or condition}"
            raise AssertionError(msg)
        await asyncio.sleep(0.002)
