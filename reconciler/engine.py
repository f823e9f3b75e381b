"""Puts the parts together: informers fill the state, changes and instants fill the queues, workers carry out.

While this process does not lead, the informers and the clock go on, and nothing else does.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta

import structlog

from common.adapters import metrics
from common.adapters.events import EventRecorder
from common.adapters.history import History
from common.adapters.kinds import CLASSES, NODES, PODS, RESERVATIONS
from common.adapters.kube import Kube
from common.adapters.reflector import Reflector
from common.domain.texts import Display
from common.domain.time import Clock
from reconciler.agenda import Agenda
from reconciler.counts import Counts
from reconciler.loops.classes import Classes
from reconciler.loops.columns import Summaries
from reconciler.loops.confirming import restamp
from reconciler.loops.counting import ClassCounts
from reconciler.loops.reservations import Reservations
from reconciler.loops.slices import Slices
from reconciler.loops.telling import Tellings
from reconciler.loops.unplaced import Unplaced
from reconciler.queue import REASONS, Kind, Work, WorkQueue
from reconciler.state import ClusterState
from reconciler.world import World
from reconciler.writes import Writes

log = structlog.get_logger(__name__)

STALE_AFTER = timedelta(seconds=150)
"""Bookmarks come about every minute, and a silent watch is begun anew after 90 s: one that was silent for longer than
that and a reconnect may have missed anything (R4)."""
WORKERS, REASON_WORKERS = 16, 2
SYNC_PATIENCE_S = 30.0


class Engine:
    def __init__(  # noqa: PLR0913 - everything that the parts are given, named
        self,
        kube: Kube,
        *,
        clock: Clock,
        monotonic: Callable[[], float],
        leads: Callable[[], bool],
        stamp: Callable[[], str],
        events: EventRecorder,
        display: Display,
        event_repeat: timedelta,
    ) -> None:
        self.state = ClusterState(self._touch)
        self.agenda: Agenda[Work] = Agenda(clock, self._touch)
        history = History()
        history.on_end(self.state.forget_all_finished)
        self._pods = Reflector(kube, PODS, self.state.on_pod, history=history)
        self._nodes = Reflector(kube, NODES, self.state.on_node, history=history)
        self._classes = Reflector(kube, CLASSES, self.state.on_class, history=history)
        self._reservations = Reflector(kube, RESERVATIONS, self.state.on_reservation, history=history)
        self._leading = False
        self.world = World(
            state=self.state,
            counts=Counts(self.state, clock, monotonic),
            clock=clock,
            agenda=self.agenda,
            touch=self._touch,
            writes=Writes(kube, leads, self._pods.apply, self._reservations.apply, self._classes.apply),
            events=events,
            display=display,
            synced=self.synced,
            fresh=self.fresh,
            stamp=stamp,
            event_repeat=event_repeat,
        )
        self._tellings = tellings = Tellings(self.world)
        self._actions = WorkQueue(
            {
                Kind.SLICE: Slices(self.world, tellings).handle,
                Kind.RESERVATION: Reservations(self.world).handle,
                Kind.CLASS: Classes(self.world).handle,
                Kind.COUNT: ClassCounts(self.world).handle,
                Kind.UNPLACED: Unplaced(self.world, tellings).handle,
            },
            WORKERS,
            certain=self.world.certain,
        )
        self._reasons = WorkQueue(
            {
                Kind.TELLING: tellings.handle,
                Kind.SUMMARY: Summaries(self.world).handle,
            },
            REASON_WORKERS,
            after=self._actions,
            certain=self.world.certain,
        )

    @property
    def reflectors(self) -> tuple[Reflector, ...]:  # type: ignore[type-arg]
        return (self._pods, self._nodes, self._classes, self._reservations)

    def synced(self) -> bool:
        return all(reflector.synced for reflector in self.reflectors)

    async def wait_synced(self) -> None:
        """Until every cache has synced; says so now and then while one has not."""
        for reflector in self.reflectors:
            while not reflector.synced:
                try:
                    await reflector.wait_synced(SYNC_PATIENCE_S)
                except TimeoutError:
                    log.warning("caches.not_synced", waited_s=SYNC_PATIENCE_S)

    def fresh(self) -> bool:
        return self.synced() and all(reflector.stale_for() < STALE_AFTER for reflector in self.reflectors)

    async def watch(self) -> None:
        """Runs for ever, leader or not: a standby's caches are warm."""
        async with asyncio.TaskGroup() as tasks:
            for reflector in self.reflectors:
                tasks.create_task(reflector.run())
            tasks.create_task(self.agenda.run())

    async def lead(self) -> None:
        """One term of leadership, until cancelled. Stamps what others announced before anything else (R8)."""
        stamped = await restamp(self.world)
        log.info("leader.started", restamped=stamped)
        self._leading = True
        try:
            self._touch_everything()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._actions.run())
                tasks.create_task(self._reasons.run())
        finally:
            self._leading = False
            self._actions.clear()
            self._reasons.clear()
            self._tellings.forget_holds()
            metrics.forget_cluster()

    def _touch(self, work: Work) -> None:
        if self._leading:
            (self._reasons if work.kind in REASONS else self._actions).touch(work)

    def _touch_everything(self) -> None:
        """A term starts from state alone; what was missed while following is in it."""
        for gpu_class in self.state.classes.values():
            self._touch(Work(Kind.CLASS, "", gpu_class.name))
            self._touch(Work(Kind.COUNT, "", gpu_class.name))
        for reservation in self.state.reservations.values():
            self._touch(Work(Kind.RESERVATION, *reservation.key))
            self._touch(Work(Kind.CLASS, "", reservation.wish.gpu_class))
        state = self.state
        for work in (*state.all_waiting_slices(), *state.all_unplaced_slices(), *state.told_in_vain()):
            self._touch(work)
