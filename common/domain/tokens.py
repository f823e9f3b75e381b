"""Claim tokens: `<second>-<units>-<rest>`; the key under which a reservation counts a pod's units."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from common.domain.pod import PodView
from common.domain.reservation import Token
from common.domain.time import Instant

_SECOND: Final = re.compile(r"[0-9]{1,11}")
"""More digits are past the calendar's end."""
_UNITS: Final = re.compile(r"[0-9]{1,18}")
_REST = re.compile(r"[0-9a-z-]{1,64}")


@dataclass(frozen=True, slots=True)
class TokenParts:
    minted: Instant
    units: int
    rest: str


def mint(now: Instant, units: int, random: str) -> Token:
    """For a pod that is not stored yet: `random` is fresh for each call."""
    return Token(f"{int(now.timestamp())}-{units}-{random}")


def for_pod(pod: PodView, units: int) -> Token:
    """For a stored pod: the same at every attempt and in every process, so a repeated claim is the same claim."""
    return Token(f"{int(pod.created.timestamp())}-{units}-{pod.uid}")


def parse(token: str) -> TokenParts | None:
    """None for what we never wrote."""
    second, _, rest = token.partition("-")
    units, _, random = rest.partition("-")
    if not (_SECOND.fullmatch(second) and _UNITS.fullmatch(units) and _REST.fullmatch(random)):
        return None
    return TokenParts(datetime.fromtimestamp(int(second), UTC), int(units), random)
