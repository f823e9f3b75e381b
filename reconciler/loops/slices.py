"""One namespace's pods of one class: who gets in now, who goes free, and who is told what they wait for."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta

import structlog

from common.adapters.metrics import PLANNER_SECONDS, RELEASE_LATENESS
from common.domain import admission, podpatch, routing
from common.domain.admission import Admit, LetGo, Slice, Tell
from common.domain.errors import NotFound, Refused
from common.domain.gpu_class import GpuClass
from common.domain.pod import PodView
from common.domain.reasons import Reason
from common.domain.reservation import OPENABLE, Reservation, Token
from reconciler.loops.telling import Tellings, annotated_reason
from reconciler.queue import Work
from reconciler.together import all_of
from reconciler.world import World

log = structlog.get_logger(__name__)

LOOK_AGAIN = timedelta(seconds=0.5)
_WAITS_FOR_THE_WINDOW = ("", Reason.UNDECIDED, Reason.WAITING_FOR_RESERVATION)
"""Reasons after which the opening of the window, or the pod's creation, is the instant at which it could be let in."""
IN_FLIGHT = 16
"""Opening patches under way at once: more only queue in the API server (measured, P13)."""


class Slices:
    def __init__(self, world: World, tellings: Tellings) -> None:
        self._world = world
        self._tellings = tellings
        self._slots = asyncio.Semaphore(IN_FLIGHT)

    async def handle(self, work: Work) -> None:
        state = self._world.state
        waiting = state.waiting(work.namespace, work.name)
        if not waiting:
            return
        gpu_class = state.class_of(work.name)
        if gpu_class is None:
            await self._unknown(work, waiting)
            return
        self._tell_unrequested(gpu_class, waiting)
        with PLANNER_SECONDS.labels("admission").time():
            slice_ = self._slice(gpu_class, work.namespace, waiting)
            actions = admission.plan(slice_, self._world.now, self._world.display)
        for action in actions:
            if isinstance(action, Tell):
                self._world.state.waits_for(action.pod, action.hold.reservation)
                self._tellings.tell(action.pod, action.hold, work)
        self._appoint(work)
        await all_of(
            (
                self._admit([action for action in actions if isinstance(action, Admit)], gpu_class),
                self._let_go([action.pod for action in actions if isinstance(action, LetGo)]),
            )
        )

    def _slice(self, gpu_class: GpuClass, namespace: str, waiting: Sequence[PodView]) -> Slice:
        count = self._world.counts.of(gpu_class)
        reservations = self._world.state.reservations_in(namespace)
        carriers = [pod for pod in self._world.state.pods_in(namespace) if pod.token and pod.live]
        holders = {pod.token: pod for pod in carriers}
        carried = Counter(pod.token for pod in carriers)
        return Slice(
            gpu_class=gpu_class,
            reservations=reservations,
            waiting=waiting,
            free=count.units.free,
            rooms=count.rooms,
            copied=frozenset(token for token, pods in carried.items() if token and pods > 1),
            siblings={
                r.name: frozenset(holders[token].owner for token in r.claims if token in holders)
                for r in reservations
                if r.claims
            },
        )

    def _appoint(self, work: Work) -> None:
        """Every window of the namespace that has yet to open is an instant at which this slice is decided again."""
        now = self._world.now
        for reservation in self._world.state.reservations_in(work.namespace):
            granted = reservation.granted
            if granted is not None and reservation.phase in OPENABLE and granted.window.start > now:
                self._world.agenda.put(work, granted.window.start)

    async def _admit(self, admits: Sequence[Admit], gpu_class: GpuClass) -> None:
        """Claims first, one patch a reservation; then the pods, in their order."""
        groups: dict[str, list[Admit]] = defaultdict(list)
        for admit in admits:
            groups[admit.reservation.uid].append(admit)
        await all_of(self._admit_into(group, gpu_class) for group in groups.values())

    async def _admit_into(self, group: Sequence[Admit], gpu_class: GpuClass) -> None:
        wanted: dict[Token, int] = {admit.token: admit.units for admit in group if not admit.claimed}
        reservation = group[0].reservation
        if wanted:
            try:
                await self._world.writes.claim(reservation, wanted)
            except (Refused, NotFound) as refusal:
                log.info("claim.refused", reservation=str(reservation.key), tokens=len(wanted), why=str(refusal))
                group = [admit for admit in group if admit.claimed]
                if not await self._moved_on(reservation):
                    await all_of(self._open(admit, gpu_class) for admit in group)
                    raise
        await all_of(self._open(admit, gpu_class) for admit in group)

    async def _moved_on(self, reservation: Reservation) -> bool:
        """Somebody else was faster, and the stored object decides the next pass; or it is as it was, and stays so."""
        try:
            stored = await self._world.writes.read_reservation(reservation.key)
        except NotFound:
            return True
        return stored.version != reservation.version

    async def _open(self, admit: Admit, gpu_class: GpuClass) -> None:
        """Raises Conflict when somebody wrote the pod meanwhile: the slice is decided again."""
        pod, now = admit.pod, self._world.now
        grant = podpatch.grant_of(admit.reservation, admit.granted, gpu_class, admit.token, now)
        operations = podpatch.grant_operations(podpatch.parts_of(pod), grant)
        async with self._slots:
            if not self._stands(admit):
                log.info("open.overtaken", pod=str(pod.key), reservation=str(admit.reservation.key))
                return
            try:
                await self._world.writes.open_pod(pod, operations)
            except NotFound:
                log.info("pod.gone", pod=str(pod.key))
                return
        if annotated_reason(pod) in _WAITS_FOR_THE_WINDOW:
            opened = max(pod.created, admit.granted.window.start)
            RELEASE_LATENESS.observe(max(0.0, (self._world.now - opened).total_seconds()))
        log.info("pod.admitted", pod=str(pod.key), reservation=admit.reservation.name, units=admit.units)
        self._tellings.admitted(pod, admit.reservation, admit.granted)

    def _stands(self, admit: Admit) -> bool:
        """The claim, by the newest state that is known: others had their turn while this pod waited for a slot."""
        current = self._world.state.reservations.get(admit.reservation.key)
        return (
            current is not None
            and current.uid == admit.reservation.uid
            and current.phase in OPENABLE
            and current.granted is not None
            and current.granted.window.contains(self._world.now)
            and admit.token in current.claims
        )

    async def _let_go(self, pods: Sequence[PodView]) -> None:
        await all_of(map(self._let_one_go, pods))

    async def _let_one_go(self, pod: PodView) -> None:
        operations = podpatch.release_operations(podpatch.parts_of(pod), strip=False)
        async with self._slots:
            try:
                await self._world.writes.open_pod(pod, operations)
                log.info("pod.let_go", pod=str(pod.key))
            except NotFound:
                log.info("pod.gone", pod=str(pod.key))

    async def _unknown(self, work: Work, waiting: Sequence[PodView]) -> None:
        """No class of this label, unless the watch of classes is behind the one of pods: a fresh list says which."""
        if any(c.label == work.name for c in await self._world.writes.list_classes()):
            self._world.agenda.put(work, self._world.now + LOOK_AGAIN)
            return
        self._tell_unknown(waiting)
        await self._let_go([pod for pod in waiting if pod.gated])

    def _tell_unknown(self, waiting: Sequence[PodView]) -> None:
        known = self._world.state.known_labels()
        for pod in waiting:
            ask = routing.Ask(pod.namespace, pod.class_label, 1, pod.labels)
            told = routing.concerns(None, ask, known)
            if told is not None and told.told is not None:
                self._tellings.event_only(pod, told.told)

    def _tell_unrequested(self, gpu_class: GpuClass, waiting: Sequence[PodView]) -> None:
        for pod in waiting:
            ask = admission.ask_of(pod, gpu_class)
            if ask.units < 1:
                told = routing.concerns(gpu_class, ask, ())
                if told is not None and told.told is not None:
                    self._tellings.event_only(pod, told.told)
