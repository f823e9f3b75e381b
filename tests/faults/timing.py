"""The clocks of this folder: faults last for real time, and the API server's clock is this machine's."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime, timedelta
from typing import Final

MOST_PATIENCE: Final = 6.0
_TICK_S: Final = 0.2


def monotonic() -> float:
    return time.monotonic()  # noqa: TID251 - see above


def wall() -> datetime:
    return datetime.now(UTC)  # noqa: TID251 - see above


def lasts(seconds: float) -> None:
    """Let a fault go on for so long."""
    end = monotonic() + seconds
    while (left := end - monotonic()) > 0:
        time.sleep(min(left, _TICK_S))  # noqa: TID251 - a fault has a length, there is nothing to wait for


def whole_second(after: datetime) -> datetime:
    """The next instant that an object can say."""
    return after.replace(microsecond=0) + timedelta(seconds=1)


def load() -> float:
    """Of the last minute, by CPU."""
    return os.getloadavg()[0] / (os.cpu_count() or 1)


def patience() -> float:
    """By how much a bound that is meant for a quiet machine is stretched on this one, now."""
    return min(MOST_PATIENCE, max(1.0, load()))
