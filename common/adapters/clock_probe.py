"""Keeps the bounds of the API server's clock narrow: answers to other requests come at times that tell little."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from secrets import SystemRandom
from typing import NoReturn

import structlog

from common.adapters import metrics, paths
from common.adapters.backoff import Backoff
from common.adapters.clock import ServerClock
from common.adapters.reflector import Api
from common.domain.errors import ApiError
from common.domain.time import SURE

NARROW = timedelta(milliseconds=50)
EVERY_S = 5.0
"""A clock that was set, or lies, is found out within so long where nothing else is asked."""
_TIMEOUT_S = 5.0
_ROUND = 12
_LEARN_AGAIN_S = 0.4
_PATIENCE_S = 15.0

_log = structlog.get_logger(__name__)
_random = SystemRandom().random


async def keep_clock(
    api: Api,
    clock: ServerClock,
    *,
    every_s: float = EVERY_S,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
) -> NoReturn:
    """Ask again and again, at the moments that tell most, until the bounds are narrow; then now and then.

    The requests themselves do the work: `api` must have been connected with `on_date=clock.sample`.
    """
    metrics.CLOCK_UNCERTAINTY.set_function(lambda: _seconds(clock.uncertainty()))
    metrics.CLOCK_CONTRADICTIONS.set_function(lambda: clock.contradictions)
    backoff = Backoff()
    round_trip_s = 0.0
    while True:
        for _ in range(_ROUND):
            await sleep(max(0.0, clock.probe_in() - round_trip_s / 2))
            sent = clock.monotonic()
            try:
                await api.request("GET", paths.VERSION, timeout_s=_TIMEOUT_S)
            except ApiError as error:
                _log.info("clock.probe_failed", error=type(error).__name__, message=str(error))
                await sleep(backoff.pause())
                continue
            backoff.reset()
            round_trip_s = clock.monotonic() - sent
            if clock.uncertainty() <= max(NARROW, timedelta(seconds=2 * round_trip_s)):
                break
        await sleep(every_s * (1 + _random() / 4))


async def learn_time(api: Api, clock: ServerClock, *, patience_s: float = _PATIENCE_S) -> bool:
    """Ask until the time is known to the second, as it is when some answers agree; False when patience ran out.

    What then goes on without it decides nothing by it. Raises ApiError.
    """
    end = clock.monotonic() + patience_s
    while clock.uncertainty() > SURE:
        if clock.monotonic() >= end:
            return False
        await asyncio.sleep(min(_LEARN_AGAIN_S, clock.probe_in()))
        await api.request("GET", paths.VERSION, timeout_s=_TIMEOUT_S)
    return True


def once_known(clock: ServerClock) -> Callable[[], str | None]:
    """A readiness check: a process that starts says what is missing until the time is known to the second.

    Not any more when the time comes to be in doubt later: all replicas would be sent away at once, and what they then
    answer is right without it.
    """
    known = False

    def missing() -> str | None:
        nonlocal known
        known = known or clock.uncertainty() <= SURE
        return None if known else "the API server's time is not known to the second yet"

    return missing


def _seconds(span: timedelta) -> float:
    return float("inf") if span == timedelta.max else span.total_seconds()
