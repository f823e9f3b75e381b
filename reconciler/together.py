"""Several requests at once, all of them to their end."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def all_of(work: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Results in order; raises the first error only after every other request has ended."""
    ended = await asyncio.gather(*work, return_exceptions=True)
    results: list[T] = []
    for outcome in ended:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results
