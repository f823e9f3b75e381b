"""Kubernetes conditions of our own objects, in and out."""

from collections.abc import Iterable

from common.adapters.wire.metadata import UNSTAMPED, ConditionWire, utc
from common.domain.reservation import Condition
from common.domain.time import format_instant


def conditions_of(wires: Iterable[ConditionWire] | None) -> tuple[Condition, ...]:
    """As they are stored, in their order."""
    return tuple(
        [
            Condition(
                type=c.type,
                status=c.status,
                reason=c.reason,
                message=c.message,
                since=utc(c.last_transition_time) if c.last_transition_time else UNSTAMPED,
                observed_generation=c.observed_generation,
            )
            for c in wires or ()
        ]
    )


def encode_conditions(conditions: Iterable[Condition]) -> list[dict[str, object]]:
    """`status.conditions`, whole: a merge patch replaces the list."""
    return [
        {
            "type": c.type,
            "status": c.status,
            "reason": c.reason,
            "message": c.message,
            "lastTransitionTime": format_instant(c.since),
            "observedGeneration": c.observed_generation,
        }
        for c in conditions
    ]
