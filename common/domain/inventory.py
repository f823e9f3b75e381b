"""Counts of a class: what its nodes have, what runs on them, what is promised and what is free."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from common.domain import capacity, confirmation, units
from common.domain.gpu_class import ClassUnits, GpuClass
from common.domain.placement import NodeRoom
from common.domain.pod import NodeView, PodView
from common.domain.reservation import OPENABLE, Reservation
from common.domain.time import Instant


@dataclass(frozen=True, slots=True)
class Count:
    """The class's units, and where they are free."""

    units: ClassUnits
    rooms: tuple[NodeRoom, ...]


def count(
    gpu_class: GpuClass,
    nodes: Sequence[NodeView],
    pods: Iterable[PodView],
    reservations: Sequence[Reservation],
    now: Instant,
) -> Count:
    """`nodes` of the class; `pods` that carry its label or run on its nodes; `reservations` of the class."""
    on_node: dict[str, int] = {node.name: 0 for node in nodes}
    natively: dict[str, dict[str, Decimal]] = {}
    bound_tokens: set[str] = set()
    unreserved = 0
    claims = {token: units_ for r in reservations for token, units_ in r.claims.items()}
    for pod in pods:
        if not pod.live:
            continue
        asked = units.pod_units(pod.requests, gpu_class.unit)
        if pod.class_label != gpu_class.label and units.counted_natively(gpu_class):
            if pod.node in on_node:
                _use_natively(natively.setdefault(pod.node, {}), pod)
            continue
        if pod.node in on_node:
            on_node[pod.node] += asked
            if pod.token is None:
                unreserved += asked
            else:
                bound_tokens.add(pod.token)
    # A pod that was let in and is placed nowhere keeps its units only while its reservation does.
    unbound = sum(
        units_
        for r in reservations
        if r.phase in OPENABLE
        for token, units_ in r.claims.items()
        if token not in bound_tokens
    )
    rooms = tuple(
        NodeRoom(node, units.node_units(node.allocatable, gpu_class.unit, natively.get(node.name)) - on_node[node.name])
        for node in nodes
        if node.schedulable
    )
    physical = units.declared_units(nodes, gpu_class.unit)
    counted = ClassUnits(
        physical=physical,
        schedulable=sum(units.node_units(n.allocatable, gpu_class.unit) for n in nodes if n.schedulable),
        unreserved=unreserved,
        spare=gpu_class.spare,
        bookable=confirmation.bookable_units(gpu_class, physical, unreserved),
        reserved=capacity.committed_at(capacity.commitments(reservations), now),
        claimed=sum(claims.values()),
        free=sum(room.free for room in rooms) - unbound,
        largest_block=max([0, *(room.free for room in rooms)]),
    )
    return Count(counted, rooms)


def free_now(gpu_class: GpuClass, claimed_now: int) -> int | None:
    """`status.units.free` brought up to date with the claims seen since it was written; None while nobody counted."""
    if gpu_class.units is None:
        return None
    return gpu_class.units.free - (claimed_now - gpu_class.units.claimed)


def _use_natively(used: dict[str, Decimal], pod: PodView) -> None:
    for resource, quantity in pod.requests.items():
        if units.is_native(resource):
            used[resource] = used.get(resource, Decimal(0)) + quantity
