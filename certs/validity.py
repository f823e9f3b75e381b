"""When a certificate holds, and when it is time for the next one. Pure."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from common.domain.time import Instant, after

RENEW_AT: Final = 2 / 3
"""The part of its life after which a certificate is renewed; the rest is for all that can go wrong meanwhile."""
_MOST: Final = timedelta(days=1)
_PART: Final = 10


@dataclass(frozen=True, slots=True)
class Validity:
    """Both ends belong to it, as X.509 has it."""

    start: Instant
    end: Instant

    def holds(self, now: Instant) -> bool:
        return self.start <= now <= self.end

    @property
    def issued(self) -> Instant:
        """When it was made: `made` in reverse."""
        return self.start + min(_MOST, (self.end - self.start) / (_PART + 1))

    @property
    def renewal(self) -> Instant:
        """A fraction of the whole life, so that also a certificate of others, or one cut short, has its time."""
        return self.start + (self.end - self.start) * RENEW_AT


def made(now: Instant, life: timedelta) -> Validity:
    """Of a certificate issued now. It begins earlier, by a day or a tenth of its life.

    A clock that is set back by less than that invalidates nothing, and API servers whose clocks are behind accept it.
    """
    return Validity(now - min(_MOST, life / _PART), after(now, life))
