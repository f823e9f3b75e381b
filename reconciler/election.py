"""Who leads: a pure step over what the Lease says and when we saw it change.

Expiry is judged by observed change on the local monotonic clock, never by another machine's timestamps
(client-go's rule). Timing is lease 4 s, renew within 3 s, retry every 1 s: a crash costs a window opening 5 s at most.
"""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Timing:
    """All in seconds. A leader that could not renew for `renew_s` stops; nobody may follow before `lease_s`."""

    lease_s: float = 4.0
    renew_s: float = 3.0
    retry_s: float = 1.0


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    holder: str
    transitions: int
    version: str
    acquired: str = ""
    """`acquireTime` as it is written; renewing leaves it as it is."""


@dataclass(frozen=True, slots=True)
class Sighting:
    """A record and the monotonic second at which we first saw this version of it."""

    record: LeaseRecord
    seen_s: float
    stale: bool = False
    """A write on it missed or is unknown: look before the next one."""


class Step(Enum):
    CREATE = "create"
    RENEW = "renew"
    TAKE = "take"
    WAIT = "wait"


def sight(before: Sighting | None, record: LeaseRecord, now_s: float) -> Sighting:
    if before is not None and before.record.version == record.version:
        return Sighting(record, before.seen_s)
    return Sighting(record, now_s)


def next_step(identity: str, sighting: Sighting | None, timing: Timing, now_s: float) -> Step:
    """None = there is no Lease object. An empty holder was released and may be taken at once."""
    if sighting is None:
        return Step.CREATE
    if sighting.record.holder == identity:
        return Step.RENEW
    if not sighting.record.holder or now_s - sighting.seen_s >= timing.lease_s:
        return Step.TAKE
    return Step.WAIT


def still_leads(renewed_s: float | None, timing: Timing, now_s: float) -> bool:
    """Whether a write may still be sent: `renewed_s` is when the last accepted renewal was *sent*."""
    return renewed_s is not None and now_s < renewed_s + timing.renew_s
