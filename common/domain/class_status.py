"""The conditions of a class: Ready, Short, Conflict."""

from dataclasses import replace

from common.domain.gpu_class import ClassUnits, GpuClass
from common.domain.reservation import Condition
from common.domain.time import Instant


def conditions(
    gpu_class: GpuClass, units: ClassUnits, nodes: int, rival: str | None, now: Instant
) -> tuple[Condition, ...]:
    """`rival` is the older class with the same label value, None when there is none."""
    missing = units.reserved - (units.schedulable - units.unreserved)
    made = (
        _ready(gpu_class, units, nodes, rival),
        ("Short", "True", "NodesNotReady", f"{missing} of {units.reserved} reserved units are not on ready nodes")
        if missing > 0
        else ("Short", "False", "NodesReady", "every unit that is reserved now is on a ready node"),
        ("Conflict", "True", "LabelTaken", f"{rival} is older and has the same label value; this class decides nothing")
        if rival
        else ("Conflict", "False", "LabelUnique", "no other class has this label value"),
    )
    before = {c.type: c for c in gpu_class.conditions}
    fresh = (Condition(*parts, since=now, observed_generation=gpu_class.generation) for parts in made)
    return tuple(
        replace(c, since=before[c.type].since) if c.type in before and before[c.type].status == c.status else c
        for c in fresh
    )


def _ready(gpu_class: GpuClass, units: ClassUnits, nodes: int, rival: str | None) -> tuple[str, str, str, str]:
    if rival:
        return ("Ready", "False", "Conflict", f"{rival} decides for label value {gpu_class.label}")
    if not nodes:
        return ("Ready", "False", "NoNodes", f"no node has the taint gpu-class-reservation={gpu_class.label}")
    if not units.physical:
        resources = " and ".join(sorted(gpu_class.unit.resources))
        return ("Ready", "False", "NoUnits", f"none of its nodes has {resources}; is spec.unit.resources right?")
    return ("Ready", "True", "Counted", f"{nodes} node{'s' if nodes > 1 else ''}")
