"""What has happened so far, in order: said by the story, or seen by a watch. Threads share it."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

from tests.demo.model import Line, Told, Topic

SETTLE_S = 0.3


class Chronicle:
    """Lines are only ever added, each in its place by time; a watch tells some moments later than the story."""

    def __init__(self, steps: int) -> None:
        self.started = time.monotonic()
        self._lock = threading.Lock()
        self._lines: list[Line] = []
        self._told = Told(of=steps)
        self._handed_out = 0
        self._closed = 0.0

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self.started

    @property
    def told(self) -> Told:
        with self._lock:
            return self._told

    def lines(self) -> Sequence[Line]:
        with self._lock:
            return tuple(self._lines)

    def news(self, settle_s: float = SETTLE_S) -> Sequence[Line]:
        """Hand out, once each, the lines before which no other will come any more."""
        with self._lock:
            self._closed = max(self._closed, self.elapsed - settle_s)
            end = bisect.bisect_right(self._lines, self._closed, key=_at)
            found = self._lines[self._handed_out : end]
            self._handed_out = end
            return found

    def step(self, title: str, sentence: str) -> None:
        """Begin the next step."""
        with self._lock:
            self._told = Told(self._told.number + 1, self._told.of, title, sentence)
            self._add(Line(self.elapsed, Topic.STEP, f"{self._told.number}/{self._told.of} {title}", sentence))

    def tell(self, sentence: str) -> None:
        """Say how the step came out."""
        with self._lock:
            self._told = replace(self._told, sentence=sentence)
            self._add(Line(self.elapsed, Topic.STEP, "=>", sentence))

    def quote(self, text: str) -> None:
        """Show what the API server said to a user, whole."""
        with self._lock:
            self._told = replace(self._told, quote=text)

    def say(self, topic: Topic, who: str, text: str, at: float | None = None) -> None:
        """Add a line; `at` is seconds by time.monotonic, now if it is not given."""
        since = self.elapsed if at is None else at - self.started
        with self._lock:
            self._add(Line(max(since, self._closed), topic, who, text))

    def _add(self, line: Line) -> None:
        bisect.insort_right(self._lines, line, key=_at)


def _at(line: Line) -> float:
    return line.at
