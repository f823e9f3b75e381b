"""The counts of a class that operators and the webhook read, and whoever waits for free units is looked at again."""

from collections import Counter
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import structlog

from common.adapters import metrics
from common.adapters.wire.gpu_class import encode_class_status
from common.domain import class_status
from common.domain.errors import Conflict, NotFound, Refused
from common.domain.gpu_class import ClassUnits, GpuClass
from common.domain.inventory import Count
from common.domain.reasons import Reason
from common.domain.reservation import Phase
from common.domain.time import Instant
from reconciler.loops.telling import annotated_reason
from reconciler.queue import Kind, Work
from reconciler.world import World

log = structlog.get_logger(__name__)

COUNT_EVERY = timedelta(seconds=0.25)
MEASURE_EVERY = timedelta(seconds=15)
"""Gauges of held pods follow what pods were told, which wakes nobody."""


class ClassCounts:
    """The status, coalesced: at most one write each `COUNT_EVERY`, and only when something differs."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._written: dict[str, tuple[Instant, dict[str, Any]]] = {}
        self._counted: dict[str, Count] = {}

    async def handle(self, work: Work) -> None:
        world = self._world
        gpu_class = world.state.classes.get(work.name)
        if gpu_class is None:
            self._forget(work.name)
            return
        world.agenda.put(work, world.now + MEASURE_EVERY)
        if not world.fresh():
            return
        remembered_s = world.counts.known_for_s(gpu_class)
        if remembered_s:
            world.agenda.put(work, world.now + timedelta(seconds=remembered_s))
        count = world.counts.of(gpu_class)
        self._wake(gpu_class, count)
        at, before = self._written.get(gpu_class.name, (None, None))
        if at is not None and at <= world.now < at + COUNT_EVERY:  # a clock that was set back silences nothing
            world.agenda.put(work, at + COUNT_EVERY)
            return
        nodes = world.state.nodes_of(gpu_class.label)
        decides = world.state.class_of(gpu_class.label)
        self._measure(gpu_class, count.units)
        ready = f"{sum(1 for node in nodes if node.schedulable)}/{len(nodes)}"
        rival = decides.name if decides is not None and decides.name != gpu_class.name else None
        conditions = class_status.conditions(gpu_class, count.units, len(nodes), rival, world.now)
        status = encode_class_status(count.units, ready, conditions, gpu_class.generation)
        if count.units == gpu_class.units and before == status:
            return
        try:
            await world.writes.class_status(gpu_class, _operations(status))
        except (Conflict, NotFound, Refused) as miss:
            log.info("class.missed", gpu_class=gpu_class.name, why=str(miss))
            await self._again(work)
            return
        self._written[gpu_class.name] = (world.now, status)
        if _supply(gpu_class.units) != _supply(count.units):
            for reservation in world.state.reservations_of(gpu_class.name):
                if reservation.phase is Phase.ACTIVE:
                    world.touch(Work(Kind.SUMMARY, *reservation.key))

    def _wake(self, gpu_class: GpuClass, count: Count) -> None:
        """Free units, or where they are, have changed: whoever waits in this class is decided again."""
        before = self._counted.get(gpu_class.name)
        if before is None or (before.units.free, before.rooms) != (count.units.free, count.rooms):
            self._counted[gpu_class.name] = count
            for slice_ in self._world.state.waiting_slices(gpu_class.label):
                self._world.touch(slice_)

    def _forget(self, class_name: str) -> None:
        self._written.pop(class_name, None)
        self._counted.pop(class_name, None)
        self._world.counts.forget(class_name)
        metrics.forget_class(class_name)

    def _measure(self, gpu_class: GpuClass, units: ClassUnits) -> None:
        state = self._world.state
        for name, value in asdict(units).items():
            metrics.UNITS.labels(gpu_class.name, name).set(value)
        held = Counter(annotated_reason(pod) for pod in state.all_waiting(gpu_class.label) if pod.gated)
        phases = Counter(r.phase for r in state.reservations_of(gpu_class.name))
        for reason in Reason:
            metrics.HELD_PODS.labels(gpu_class.name, reason).set(held[reason])
        for phase in Phase:
            metrics.RESERVATIONS.labels(gpu_class.name, phase).set(phases[phase])

    async def _again(self, work: Work) -> None:
        await self._world.writes.read_class(work.name)
        self._world.agenda.put(work, self._world.now + COUNT_EVERY)


def _supply(units: ClassUnits | None) -> tuple[int, int, int] | None:
    """What puts active reservations at risk, or out of it."""
    return (units.schedulable, units.unreserved, units.reserved) if units is not None else None


def _operations(status: dict[str, Any]) -> list[dict[str, Any]]:
    """Only our own fields: the counter beside them belongs to the rounds of confirmation."""
    return [{"op": "add", "path": f"/status/{name}", "value": value} for name, value in status.items()]
