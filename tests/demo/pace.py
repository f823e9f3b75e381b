"""How fast the story is told: the only place of the demo that waits for people rather than for a condition."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta


@dataclass(frozen=True)
class Pace:
    """factor 1 is made for reading along, 0 is as fast as the cluster allows."""

    factor: float = 1.0

    @classmethod
    def parse(cls, text: str) -> Pace:
        """Read the variable PACE; raises ValueError with a sentence for people."""
        try:
            factor = float(text or "1")
        except ValueError:
            factor = math.nan
        if not 0 <= factor <= 10:
            message = f"PACE is a number from 0 (at once) to 10 (slow), not {text!r}"
            raise ValueError(message)
        return cls(factor)

    def read(self, seconds: float = 4.0) -> None:
        """Leave people the time to read what has just happened."""
        if self.factor:
            time.sleep(seconds * self.factor)

    def scaled(self, least: float, paced: float = 0.0) -> timedelta:
        """So long, and longer where people watch."""
        return timedelta(seconds=least + paced * self.factor)

    def instant(self, least: float, paced: float = 0.0) -> datetime:
        """A whole second that far from now: instants are stored without fractions."""
        return (datetime.now(UTC) + self.scaled(least, paced)).replace(microsecond=0) + timedelta(seconds=1)
