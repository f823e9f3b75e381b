"""The only reader of clocks (R9).

Time is judged by the API server's clock. Each answer has a `Date` header with whole seconds: its server read D, so its
clock stood in [D, D+1) at some moment between our sending and our receiving. That bounds the offset between the API
server's clock and our monotonic one to an interval; intersecting the intervals of several answers leaves tens of
milliseconds. The wall clock of this machine is never asked.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

import structlog

from common.domain.time import Instant

log = structlog.get_logger(__name__)

FAR_PAST: Final[Instant] = datetime(1970, 1, 1, tzinfo=UTC)
"""What `now()` says before anything is believed: no window has opened, no guarantee has ended, nothing is over (R4)."""

_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_DRIFT = 50e-6
_ROUNDING_S = 2e-6  # a float of seconds since 1970 resolves 0.24 µs; every bound gives way by more than that
_LARGEST_SLACK_S = 0.25
_LEAST_STEP_S = 1.0  # what misses by more is a clock that was set, or a lie, not one that differs


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

    def hull(self, other: "Bounds") -> "Bounds":
        return Bounds(min(self.low, other.low), max(self.high, other.high))

    def gap(self, other: "Bounds") -> float:
        """Distance between two intervals that do not meet."""
        return max(self.low - other.high, other.low - self.high, 0.0)


def bounds_of(date: Instant, sent: float, received: float) -> Bounds:
    """What one answer says; `sent` and `received` are readings of the monotonic clock around it."""
    second = (date - FAR_PAST).total_seconds()
    return Bounds(second - received, second + 1.0 - sent).widened(_ROUNDING_S)


class Proof(NamedTuple):
    """How many samples must agree, and over how many seconds, before they are believed."""

    samples: int
    seconds: float

    def given(self, samples: int, seconds: float) -> bool:
        return samples >= self.samples and seconds >= self.seconds


AT_FIRST: Final = Proof(3, 1.0)
AGAINST_OTHERS: Final = Proof(5, 10.0)


class Claim(NamedTuple):
    """What samples say that is not believed yet, because they are few or contradict what was known or one another."""

    said: Bounds
    """By the latest samples, which agree."""
    hull: Bounds
    """By all samples since the dispute began."""
    samples: int
    since: float
    needs: Proof

    def widened(self, by: float) -> "Claim":
        return self._replace(said=self.said.widened(by), hull=self.hull.widened(by))

    def agreed(self, said: Bounds) -> "Claim":
        return self._replace(said=said, hull=self.hull.hull(said), samples=self.samples + 1)

    def proven(self, at: float) -> bool:
        return self.needs.given(self.samples, at - self.since)


class State(NamedTuple):
    """All that is known at one moment of the monotonic clock."""

    at: float
    known: Bounds | None = None
    claim: Claim | None = None
    samples: int = 0
    """How many, since when, agree with what is known."""
    since: float = 0.0

    @property
    def possible(self) -> Bounds | None:
        """Where the truth may lie; None while nothing is believed yet."""
        if self.known is None or self.claim is None:
            return self.known
        return self.known.hull(self.claim.hull)


class ServerClock:
    """Implements `common.domain.time.Clock`; pass `sample` to `Kube` as `on_date`, from any thread.

    One answer may lie: a proxy, or one API server of several whose clock is hours off. A sample that misses what is
    known by a second or more is therefore a claim. While it stands, all that was known and all that is claimed is
    possible: `now()` is the earliest of it and `uncertainty()` its width, so that nothing opens and nothing ends. Soon
    after the start, while less than `AGAINST_OTHERS` speaks for what is known, it means that nothing is known. One
    sample that agrees with what was known ends the dispute; `AGAINST_OTHERS` in a row end it for the claim, which is
    how a clock that was set is found out, and then `now()` may step back for good.

    API servers whose clocks differ by less do not contradict one another for ever: what is known grows to take the
    other one in, and from then on all samples are widened by half as much again as it missed by.
    """

    def __init__(self, read: Callable[[], float] = monotonic, drift: float = _DRIFT) -> None:
        self._read = read
        self._drift = drift
        self._state = State(0.0)
        """Replaced as one, because the lease has a thread of its own."""
        self._slack = 0.0
        self._taking = threading.Lock()
        self.contradictions = 0

    def sample(self, date: Instant, sent: float, received: float) -> None:
        """Take in the `Date` of an answer; samples may come late and out of order."""
        with self._taking:
            at, disputed = max(received, self._state.at), self.disputed
            self._state = self._taken(self._state_at(at), bounds_of(date, sent, received), at - sent)
            if self.disputed is not disputed:
                log.warning("clock.disputed" if self.disputed else "clock.agreed", date=str(date), now=str(self.now()))

    @property
    def disputed(self) -> bool:
        """Whether an answer contradicts the others, and it is not settled which of them lies."""
        claim = self._state.claim
        return claim is not None and claim.needs is AGAINST_OTHERS

    def now(self) -> Instant:
        """Latest instant that the API server's clock has certainly reached; FAR_PAST before anything is believed."""
        mono = self._read()
        bounds = self._state_at(mono).possible
        return FAR_PAST if bounds is None else FAR_PAST + timedelta(seconds=mono + bounds.low)

    def uncertainty(self) -> timedelta:
        """How much later than `now()` it may be; `timedelta.max` before anything is believed."""
        bounds = self._state_at(self._read()).possible
        return timedelta.max if bounds is None else timedelta(seconds=bounds.width)

    def monotonic(self) -> float:
        return self._read()

    def probe_in(self) -> float:
        """Seconds until a request tells most: when the middle of what is said turns from one second to the next.

        The answer then halves the interval, until the round trip is the limit.
        """
        mono = self._read()
        state = self._state_at(mono)
        said = state.claim.said if state.claim is not None else state.known
        return 0.0 if said is None else 1.0 - (mono + (said.low + said.high) / 2) % 1.0

    def _state_at(self, mono: float) -> State:
        """Bounds grow with time, because clocks drift apart."""
        state = self._state
        by = self._drift * max(0.0, mono - state.at)
        known, claim = state.known and state.known.widened(by), state.claim and state.claim.widened(by)
        return state._replace(at=max(mono, state.at), known=known, claim=claim)

    def _taken(self, state: State, new: Bounds, age_s: float) -> State:
        at, known, claim, samples, since = state
        if known is not None and (agreed := self._agreed(known, new, age_s)) is not None:
            return State(at, agreed, None, samples + 1, since)
        said = self._agreed(claim.said, new, age_s) if claim is not None else None
        if claim is not None and said is not None:
            claim = claim.agreed(said)
            if claim.proven(at):
                return State(at, claim.said, None, claim.samples, claim.since)
            return state._replace(claim=claim)
        fresh = self._fresh(new, age_s)
        if known is None and claim is None:
            return State(at, None, Claim(fresh, fresh, 1, at, AT_FIRST))
        self.contradictions += 1
        hull = claim.hull.hull(fresh) if claim is not None else fresh
        if not AGAINST_OTHERS.given(samples, at - since):
            # The first few may all have come from one server that lies: then nothing is known any more.
            return State(at, None, Claim(fresh, hull, 1, at, AGAINST_OTHERS))
        return state._replace(claim=Claim(fresh, hull, 1, at, AGAINST_OTHERS))

    def _agreed(self, one: Bounds, new: Bounds, age_s: float) -> Bounds | None:
        """What both allow, or either where they differ by less than a clock that was set; None where by more."""
        fresh = self._fresh(new, age_s)
        both = one.intersected(fresh)
        if both is not None:
            return both
        missed_by = one.gap(fresh)
        if missed_by >= _LEAST_STEP_S:
            return None
        self.contradictions += 1
        self._slack = min(_LARGEST_SLACK_S, 1.5 * (self._slack + missed_by))
        return one.hull(self._fresh(new, age_s))

    def _fresh(self, new: Bounds, age_s: float) -> Bounds:
        return new.widened(self._slack + self._drift * age_s)
