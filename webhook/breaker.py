"""Stops asking an API server that does not answer, so that a webhook cut off from it does not slow every create."""

from collections.abc import Callable


class Breaker:
    """Opens after `misses` in a row; from then on lets one probe through per `rest_s` until one succeeds."""

    def __init__(self, monotonic: Callable[[], float], misses: int = 4, rest_s: float = 5.0) -> None:
        self._monotonic = monotonic
        self._misses = misses
        self._rest_s = rest_s
        self._in_a_row = 0
        self._resting_until = 0.0

    @property
    def open(self) -> bool:
        return self._in_a_row >= self._misses

    def allows(self) -> bool:
        """Whether to ask now; while open, the one answer True per rest is the probe."""
        if not self.open:
            return True
        now = self._monotonic()
        if now < self._resting_until:
            return False
        self._resting_until = now + self._rest_s
        return True

    def missed(self) -> None:
        self._in_a_row += 1
        if self.open:
            self._resting_until = self._monotonic() + self._rest_s

    def succeeded(self) -> None:
        self._in_a_row = 0
