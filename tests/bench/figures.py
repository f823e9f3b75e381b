"""What a benchmark hands over: figures with their targets, and the absolute values that they were made of."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from tests.bench.arithmetic import spread


class Verdict(StrEnum):
    MET = "met"
    MISSED = "MISSED"
    NONE = ""


class Bound(StrEnum):
    AT_MOST = "≤"
    AT_LEAST = "≥"
    NONE = ""


class Absolute(msgspec.Struct, frozen=True):
    """A value that this machine had in this run; of no use without what stands beside it."""

    label: str
    value: float
    unit: str
    spread: float | None = None


class Figure(msgspec.Struct, frozen=True):
    """One row: a median (or percentile) of `count` values, held against a target where there is one."""

    bench: str
    name: str
    value: float
    unit: str
    """`×` for a ratio."""
    count: int
    spread: float | None = None
    bound: Bound = Bound.NONE
    target: float | None = None
    absolutes: Sequence[Absolute] = ()
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        match self.bound:
            case Bound.AT_MOST if self.target is not None:
                return Verdict.MET if self.value <= self.target else Verdict.MISSED
            case Bound.AT_LEAST if self.target is not None:
                return Verdict.MET if self.value >= self.target else Verdict.MISSED
            case _:
                return Verdict.NONE


class Outcome(msgspec.Struct, frozen=True):
    """What one benchmark found; `problem` where it could not measure."""

    bench: str
    figures: Sequence[Figure] = ()
    profiles: Sequence[str] = ()
    """Files beside the JSON that say where the time went."""
    problem: str = ""
    took_s: float = 0.0


class Machine(msgspec.Struct, frozen=True):
    cpus: int
    model: str
    system: str
    python: str
    load: tuple[float, float]
    """One-minute load average before and after: above the number of CPUs the figures are those of a busy machine."""


class Report(msgspec.Struct, frozen=True):
    date: str
    commit: str
    quick: bool
    machine: Machine
    outcomes: Sequence[Outcome]

    @property
    def complete(self) -> bool:
        return not any(outcome.problem for outcome in self.outcomes)


def absolute(label: str, values: Sequence[float], unit: str) -> Absolute:
    """The median of some rounds, with their spread."""
    found = spread(values)
    return Absolute(label, found.median, unit, found.half_range)


def figure(
    bench: str,
    name: str,
    values: Sequence[float],
    unit: str = "×",
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    absolutes: Sequence[Absolute] = (),
    note: str = "",
) -> Figure:
    """The median of some rounds as a row."""
    found = spread(values)
    bound = Bound.AT_MOST if at_most is not None else Bound.AT_LEAST if at_least is not None else Bound.NONE
    target = at_most if at_most is not None else at_least
    return Figure(bench, name, found.median, unit, found.count, found.half_range, bound, target, tuple(absolutes), note)
