"""Instants and half-open windows, all in UTC (design rule R9)."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Protocol, TypeAlias

Instant: TypeAlias = datetime
"""An aware datetime in UTC. Adapters refuse naive ones at the border."""

_LAST = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)


SURE: Final = timedelta(seconds=1)
"""A clock that is less certain than this opens nothing, ends nothing and denies nothing (R4, R9)."""


class Clock(Protocol):
    """Judges by the API server's clock; the only implementation that reads a clock is `common.adapters.clock`."""

    def now(self) -> Instant:
        """Latest instant that the API server's clock has certainly reached: windows open and guarantees end by it."""
        ...

    def uncertainty(self) -> timedelta:
        """Width of the interval in which the API server's clock lies: `SURE`, or nothing may be decided by it."""
        ...


@dataclass(frozen=True, slots=True, order=True)
class Window:
    """`[start, end)`. A mirrored best-effort row has zero length and contains no instant."""

    start: Instant
    end: Instant

    def __post_init__(self) -> None:
        if self.end < self.start:
            msg = f"window ends at {self.end} before it starts at {self.start}"
            raise ValueError(msg)

    @property
    def duration(self) -> timedelta:
        return self.end - self.start

    def contains(self, instant: Instant) -> bool:
        return self.start <= instant < self.end

    def overlaps(self, other: "Window") -> bool:
        return self.start < other.end and other.start < self.end


def after(start: Instant, duration: timedelta) -> Instant:
    """`start + duration`, at most the end of the calendar: nothing that people ask for may stop a planner."""
    try:
        return start + duration
    except OverflowError:
        return max(start, _LAST)


@lru_cache(maxsize=1024)
def format_instant(instant: Instant) -> str:
    """`2026-12-01T09:00:00Z`: the format of every stored instant; fractions are cut."""
    # isoformat is five times faster than strftime, and a grant writes five instants.
    return instant.astimezone(UTC).isoformat(timespec="seconds").removesuffix("+00:00") + "Z"


def parse_instant(text: str) -> Instant:
    """Read RFC 3339 with any offset; raises ValueError when it has none."""
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        msg = f"{text!r} has no offset from UTC"
        raise ValueError(msg)
    return parsed.astimezone(UTC)
