"""Pods that were let in and that no node took before their guarantee ended: deleted, and their people are told why."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import structlog

from common.adapters.metrics import UNPLACED_DELETED
from common.domain.errors import Conflict, MalformedObject, NotFound
from common.domain.gpu_class import GpuClass
from common.domain.pod import PodView
from common.domain.reservation import Reservation
from common.domain.time import Instant
from common.domain.unplaced import overdue
from reconciler.loops.telling import Tellings
from reconciler.queue import Work
from reconciler.together import all_of
from reconciler.world import World

log = structlog.get_logger(__name__)

PER_SECOND = 50
"""Each deletion makes a controller create a pod, which is reviewed and held: no burst of that is in anybody's way."""
IN_FLIGHT = 8
SECOND = timedelta(seconds=1)
UNKNOWN_AGAIN = timedelta(seconds=30)


class Unplaced:
    def __init__(self, world: World, tellings: Tellings) -> None:
        self._world = world
        self._tellings = tellings
        self._slots = asyncio.Semaphore(IN_FLIGHT)
        self._since: Instant | None = None
        self._left = 0

    async def handle(self, work: Work) -> None:
        world = self._world
        pods = world.state.unplaced(work.namespace, work.name)
        gpu_class = world.state.class_of(work.name)
        if gpu_class is None or not overdue(pods, world.state.reservations_in(work.namespace), gpu_class):
            return
        if not self._left_now():
            world.agenda.put(work, world.now + SECOND)
            return
        fresh = await self._look(gpu_class, work.namespace)
        if fresh is None:
            world.agenda.put(work, world.now + UNKNOWN_AGAIN)
            return
        current, reservations = fresh
        over = overdue(pods, reservations, current)
        going = over[: self._left_now()]
        self._left -= len(going)
        if len(going) < len(over):
            world.agenda.put(work, world.now + SECOND)
        named = {r.key: r for r in reservations}
        await all_of(self._delete(pod, named.get(pod.booking)) for pod in going)

    async def _look(self, gpu_class: GpuClass, namespace: str) -> tuple[GpuClass, Sequence[Reservation]] | None:
        """Read anew what the informers' view says, right before what cannot be undone (R3); None is unknown (R4)."""
        if not self._world.fresh():
            return None
        try:
            current = await self._world.writes.read_class(gpu_class.name)
            return current, await self._world.writes.list_reservations(namespace)
        except NotFound:
            return None
        except MalformedObject as error:
            log.warning("unplaced.unknown", namespace=namespace, why=str(error))
            return None

    async def _delete(self, pod: PodView, reservation: Reservation | None) -> None:
        async with self._slots:
            try:
                await self._world.writes.delete_pod(pod)
            except (Conflict, NotFound) as miss:
                log.info("unplaced.missed", pod=str(pod.key), why=str(miss))
                return
        UNPLACED_DELETED.inc()
        log.info("unplaced.deleted", pod=str(pod.key))
        self._tellings.removed(pod, reservation)

    def _left_now(self) -> int:
        """How many may still go in this second; a clock that was set back keeps none of them waiting."""
        now = self._world.now
        if self._since is None or not self._since <= now < self._since + SECOND:
            self._since, self._left = now, PER_SECOND
        return self._left
