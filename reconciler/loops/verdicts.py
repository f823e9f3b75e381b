"""What a verdict writes into the status of a reservation, and what its people are told of a change."""

from dataclasses import replace
from typing import Any

from common.adapters.wire.conditions import encode_conditions
from common.adapters.wire.reservation import encode_granted
from common.domain.confirmation import Verdict
from common.domain.gpu_class import GpuClass
from common.domain.reservation import Condition, Granted, Phase, Reservation
from common.domain.time import format_instant
from reconciler.world import World


def confirmed(world: World, row: Reservation, verdict: Verdict, granted: Granted) -> dict[str, Any]:
    condition = Condition("Confirmed", "True", verdict.reason, verdict.message, world.now, row.generation)
    return {
        **_common(row),
        "phase": str(Phase.CONFIRMED),
        "reason": str(verdict.reason),
        "message": verdict.message,
        "granted": encode_granted(granted),
        "guaranteedUntil": format_instant(granted.window.end),
        "claims": {},
        "used": f"0/{granted.units}",
        "waitingPods": 0,
        "conditions": encode_conditions(with_condition(row, condition)),
    }


def denied(world: World, row: Reservation, verdict: Verdict) -> dict[str, Any]:
    condition = Condition("Confirmed", "False", verdict.reason, verdict.message, world.now, row.generation)
    return {
        **_common(row),
        "phase": str(Phase.DENIED),
        "reason": str(verdict.reason),
        "message": verdict.message,
        "finishedAt": format_instant(world.now),
        "conditions": encode_conditions(with_condition(row, condition)),
    }


def applied(world: World, row: Reservation, verdict: Verdict) -> dict[str, Any]:
    status = "True" if verdict.granted is not None else "False"
    reason = "Applied" if verdict.granted is not None else str(verdict.reason)
    condition = Condition("Applied", status, reason, verdict.message, world.now, row.generation)
    fields = {**_common(row), "conditions": encode_conditions(with_condition(row, condition))}
    if verdict.granted is not None:
        fields |= {
            "granted": encode_granted(verdict.granted),
            "guaranteedUntil": format_instant(verdict.granted.window.end),
        }
    return fields


def _common(row: Reservation) -> dict[str, Any]:
    return {
        "observedGeneration": row.generation,
        "createdBy": row.stamped_created_by,
        "changedBy": row.stamped_changed_by,
    }


def with_condition(row: Reservation, condition: Condition) -> list[Condition]:
    """The conditions with this one in; its instant stands while its status does."""
    before = row.condition(condition.type)
    if before is not None and before.status == condition.status:
        condition = replace(condition, since=before.since)
    return [c for c in row.conditions if c.type != condition.type] + [condition]


def tell_change(world: World, gpu_class: GpuClass, row: Reservation, verdict: Verdict) -> None:
    if verdict.granted is None:
        world.events.reservation(row, "NotApplied", "ChangeReservation", verdict.message, "Warning")
        return
    until = world.display.instant(verdict.granted.window.end)
    size = f"({verdict.granted.units} \N{MULTIPLICATION SIGN} {gpu_class.name})"
    longer = row.granted is not None and verdict.granted.window.end > row.granted.window.end
    note = f"{row.name} {'extended' if longer else 'changed'}: yours until {until} {size}"
    world.events.reservation(row, "Extended" if longer else "Changed", "ChangeReservation", note, "Normal")
