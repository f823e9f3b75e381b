"""Lines for pipes, CI and dumb terminals: one per thing that happened, with the seconds since the start."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from tests.demo.chronicle import SETTLE_S, Chronicle
from tests.demo.model import Line, Topic
from tests.demo.proofs import Verdict

LOOK_EVERY_S = 0.1


def line(found: Line) -> str:
    """One line of the log."""
    if found.topic is Topic.STEP:
        heading = found.who if found.who == "=>" else f"-- {found.who} --"
        return f"{found.at:7.2f}  {heading} {found.text}"
    return f"{found.at:7.2f}  {found.topic.value} {found.who}: {found.text}"


def summary(verdicts: Sequence[Verdict], story: str) -> Sequence[str]:
    """What was proved, and what was not."""
    asked = [verdict for verdict in verdicts if verdict.asked]
    lines = [f"{'proved' if v.holds else 'FAILED'}  {v.claim} ({v.detail})" for v in asked]
    lines += [f"not asked here: {v.claim} ({v.detail})" for v in verdicts if not v.asked]
    if story:
        lines.append(f"FAILED  the story: {story}")
    held = sum(verdict.holds for verdict in asked)
    return [*lines, f"{held} of {len(asked)} claims proved{', and the story broke off' if story else ''}"]


class PlainView:
    """Context manager: prints the chronicle as it grows."""

    def __init__(self, chronicle: Chronicle, write: Callable[[str], None]) -> None:
        self._chronicle = chronicle
        self._write = write
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._work, name="plain", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._print(settle_s=0)

    def _work(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            self._print()

    def _print(self, settle_s: float = SETTLE_S) -> None:
        for found in self._chronicle.news(settle_s):
            self._write(line(found))
