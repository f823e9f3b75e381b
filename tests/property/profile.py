"""One way to run every property: the same examples each time, few enough for the suite to take seconds."""

from typing import Final

from hypothesis import settings

CALM: Final = settings(max_examples=60, deadline=None, derandomize=True, database=None)
MACHINE: Final = settings(CALM, max_examples=80, stateful_step_count=40)
