"""The only reader of clocks (R9).

Time is judged by the API server's clock. Each answer has a `Date` header with whole seconds: its server read D, so its
clock stood in [D, D+1) at some moment between our sending and our receiving. That bounds the offset between the API
server's clock and our monotonic one to an interval; intersecting the intervals of several answers leaves tens of
milliseconds. The wall clock of this machine is never asked.
"""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from common.domain.time import Instant

FAR_PAST: Final[Instant] = datetime(1970, 1, 1, tzinfo=UTC)
"""What `now()` says before the first sample: no window has opened, no guarantee has ended, nothing is over (R4)."""

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_DRIFT = 50e-6
_ROUNDING_S = 2e-6  # a float of seconds since 1970 resolves 0.24 µs; every bound gives way by more than that
_LARGEST_SLACK_S = 0.25
_LONGEST_SLEEP_S = 30.0
_UNKNOWN_SLEEP_S = 0.25


def monotonic() -> float:
    """Seconds of this machine's monotonic clock: for durations, timeouts and leases, never for instants.

    On Linux it goes on while the machine is suspended, so that a lease has run out when the machine wakes.
    """
    return time.clock_gettime(_CLOCK)


class Bounds(NamedTuple):
    """Closed interval, in seconds, in which (API server's clock - monotonic clock) lies."""

    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low

    def widened(self, by: float) -> "Bounds":
        return Bounds(self.low - by, self.high + by)

    def intersected(self, other: "Bounds") -> "Bounds | None":
        low, high = max(self.low, other.low), min(self.high, other.high)
        return Bounds(low, high) if low <= high else None

    def gap(self, other: "Bounds") -> float:
        """Distance between two intervals that do not meet."""
        return max(self.low - other.high, other.low - self.high, 0.0)


def bounds_of(date: Instant, sent: float, received: float) -> Bounds:
    """What one answer says; `sent` and `received` are readings of the monotonic clock around it."""
    second = (date - FAR_PAST).total_seconds()
    return Bounds(second - received, second + 1.0 - sent).widened(_ROUNDING_S)


class ServerClock:
    """Implements `common.domain.time.Clock`; pass `sample` to `Kube` as `on_date`.

    `now()` may step back once when a sample contradicts what was known (the API server's clock was set back, or another
    API server with another clock answered): such a sample starts anew, and from then on all are widened by half as
    much again as it missed by, so that API servers whose clocks differ a little do not contradict one another forever.
    """

    def __init__(self, read: Callable[[], float] = monotonic, drift: float = _DRIFT) -> None:
        self._read = read
        self._drift = drift
        self._known: tuple[Bounds, float] | None = None
        """The bounds and when they held; replaced as one, because the lease has a thread of its own."""
        self._slack = 0.0
        self.contradictions = 0

    def sample(self, date: Instant, sent: float, received: float) -> None:
        """Take in the `Date` of an answer; samples may come late and out of order."""
        new = bounds_of(date, sent, received)
        at = max(received, self._known[1]) if self._known else received
        known = self._bounds_at(at)
        fresh = new.widened(self._slack + self._drift * (at - sent))
        both = known.intersected(fresh) if known else fresh
        if both is None and known is not None:
            self.contradictions += 1
            missed_by = known.gap(fresh)
            if missed_by < 1.0:  # more than that is a clock that was set, not one that differs
                self._slack = min(_LARGEST_SLACK_S, 1.5 * (self._slack + missed_by))
            both = new.widened(self._slack + self._drift * (at - sent))
        self._known = (both or fresh, at)

    def now(self) -> Instant:
        """Latest instant that the API server's clock has certainly reached; FAR_PAST before the first sample."""
        mono = self._read()
        bounds = self._bounds_at(mono)
        return FAR_PAST if bounds is None else FAR_PAST + timedelta(seconds=mono + bounds.low)

    def uncertainty(self) -> timedelta:
        """How much later than `now()` it may be; `timedelta.max` before the first sample."""
        bounds = self._bounds_at(self._read())
        return timedelta.max if bounds is None else timedelta(seconds=bounds.width)

    def monotonic(self) -> float:
        return self._read()

    def until(self, instant: Instant) -> float:
        """Seconds until `now()` reaches the instant by what is known now (its late edge); infinite before a sample."""
        if self._known is None:
            return float("inf")
        return max(0.0, (instant - self.now()).total_seconds())

    async def sleep_until(self, instant: Instant) -> None:
        """Return once `now()` has reached the instant; looks again on the way, because samples move `now()`."""
        while (left := self.until(instant)) > 0:  # noqa: ASYNC110 - it is time itself that is waited for
            await asyncio.sleep(min(_LONGEST_SLEEP_S, max(left / 2, 0.001)) if self._known else _UNKNOWN_SLEEP_S)

    def probe_in(self) -> float:
        """Seconds until a request tells most: when the middle of what is possible turns from one second to the next.

        The answer then halves the interval, until the round trip is the limit.
        """
        mono = self._read()
        bounds = self._bounds_at(mono)
        return 0.0 if bounds is None else 1.0 - (mono + (bounds.low + bounds.high) / 2) % 1.0

    def _bounds_at(self, mono: float) -> Bounds | None:
        if self._known is None:
            return None
        bounds, at = self._known
        return bounds.widened(self._drift * max(0.0, mono - at))
