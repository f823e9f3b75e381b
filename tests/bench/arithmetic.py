"""Medians, spreads and ratios of interleaved runs; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Spread:
    """A median, and half of the range as a share of it: 0.08 is ± 8 %. One value alone has no spread."""

    median: float
    half_range: float | None
    count: int


def median(values: Sequence[float]) -> float:
    """The middle one, or the mean of the two in the middle."""
    ordered = sorted(values)
    if not ordered:
        message = "a median needs at least one value"
        raise ValueError(message)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of all values does not exceed: one that occurred, never between two.

    With fewer values than 1 / (1 - share) this is the largest: p99 of 50 windows is the worst of them.
    """
    ordered = sorted(values)
    if not ordered or not 0 < share <= 1:
        message = "a percentile needs values, and a share in (0, 1]"
        raise ValueError(message)
    # Rounded, so that 0.95 × 20 is 19 in floats too.
    return ordered[math.ceil(round(share * len(ordered), 9)) - 1]


def spread(values: Sequence[float]) -> Spread:
    middle = median(values)
    half = (max(values) - min(values)) / 2
    return Spread(middle, half / abs(middle) if middle and len(values) > 1 else None, len(values))


def ratios(ours: Sequence[float], others: Sequence[float]) -> Sequence[float]:
    """Round by round, so that what slows a whole round down cancels out."""
    if len(ours) != len(others):
        message = f"{len(ours)} rounds beside {len(others)}"
        raise ValueError(message)
    return [mine / other for mine, other in zip(ours, others, strict=True)]
