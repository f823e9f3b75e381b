"""Pauses between attempts that failed: exponential, jittered, bounded, reset by the first success."""

from collections.abc import Callable
from secrets import SystemRandom

_random = SystemRandom().random


class Backoff:
    """`pause()` for each failure in a row, `reset()` at a success."""

    def __init__(self, first_s: float = 0.2, longest_s: float = 2.0, random: Callable[[], float] = _random) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._random = random
        self._next_s = first_s

    def pause(self, at_least_s: float = 0.0) -> float:
        """Seconds to wait now: half to all of the current step, or `at_least_s` and up to a quarter more."""
        step, self._next_s = self._next_s, min(self._longest_s, self._next_s * 2)
        return max(step * (1 + self._random()) / 2, at_least_s * (1 + self._random() / 4))

    def reset(self) -> None:
        self._next_s = self._first_s
