"""One reservation: phases at their instants, claims that nobody stands behind, and what its columns say."""

from datetime import timedelta
from typing import Any

import structlog

from common.adapters.metrics import ORPHANS_DROPPED
from common.adapters.wire.reservation import encode_granted
from common.domain import keys, orphans, tokens, windows
from common.domain.errors import Conflict, NotFound, Refused
from common.domain.pod import PodView
from common.domain.reasons import Hold, Reason
from common.domain.reservation import OPENABLE, TERMINAL, ObjectKey, Reservation, Token
from common.domain.time import Instant, format_instant
from reconciler.loops import confirming
from reconciler.queue import Kind, Work
from reconciler.world import World

log = structlog.get_logger(__name__)

FAST_PATH_PAUSE = timedelta(minutes=5)
"""After claims were orphaned at CREATE (a quota refused the pods, say), pods are claimed only once they are stored."""
SUMMARY_EVERY = timedelta(seconds=0.5)
STALE_AGAIN = timedelta(seconds=30)
WITHDRAW_AGAIN = timedelta(seconds=1)
"""Somebody wrote the pod: the informer will tell what, or this look finds it unchanged and tries once more."""


class Reservations:
    def __init__(self, world: World) -> None:
        self._world = world

    async def handle(self, work: Work) -> None:
        key = ObjectKey(work.namespace, work.name)
        reservation = self._world.state.reservations.get(key)
        if reservation is None:
            return
        gpu_class = self._world.state.classes.get(reservation.wish.gpu_class)
        due = windows.plan(reservation, gpu_class, self._world.now)
        if due.next is not None:
            self._world.agenda.put(work, due.next)
        if isinstance(due.action, windows.PhaseChange):
            reservation = await self._change_phase(due.action)
        elif isinstance(due.action, windows.Removal):
            await self._remove(due.action.reservation)
            return
        if reservation is None:
            return
        if confirming.undecided(reservation):
            self._world.touch(Work(Kind.CLASS, "", reservation.wish.gpu_class))
        elif windows.changed(reservation) and not reservation.wish.cancel:
            await confirming.acknowledge(self._world, reservation)
        await self._settle_claims(reservation, work)
        self._world.touch(Work(Kind.SUMMARY, work.namespace, work.name))

    async def _change_phase(self, change: windows.PhaseChange) -> Reservation | None:
        reservation, to = change.reservation, change.to
        status: dict[str, Any] = {"phase": str(to), "observedGeneration": reservation.generation}
        gone: list[str] = []
        if to in TERMINAL:
            status |= {
                "reason": change.reason,
                "message": change.message,
                "finishedAt": format_instant(self._world.now),
            }
            gone = ["granted"] if reservation.granted is not None else []
            gone += ["guaranteedUntil"] if reservation.guaranteed_until is not None else []
        elif reservation.observed_generation != reservation.generation:
            del status["observedGeneration"]  # a change of the spec has yet to be judged
        try:
            written = await self._world.writes.change_phase(
                reservation, status, gone=gone, promised=encode_granted(reservation.granted)
            )
        except (Refused, NotFound) as miss:
            log.info("phase.missed", reservation=str(reservation.key), to=str(to), why=str(miss))
            return await self._read(reservation.key)
        log.info("reservation.phase", reservation=str(reservation.key), to=str(to))
        if to in TERMINAL:
            self._world.events.reservation(reservation, change.reason, "EndReservation", change.message, "Normal")
        return written

    async def _read(self, key: ObjectKey) -> Reservation | None:
        try:
            return await self._world.writes.read_reservation(key)
        except NotFound:
            return None

    async def _remove(self, reservation: Reservation) -> None:
        if not self._world.fresh():
            self._world.agenda.put(Work(Kind.RESERVATION, *reservation.key), self._world.now + STALE_AGAIN)
            return
        try:
            await self._world.writes.remove_reservation(reservation)
            log.info("reservation.removed", reservation=str(reservation.key))
        except (Conflict, NotFound) as miss:
            log.info("remove.missed", reservation=str(reservation.key), why=str(miss))

    async def _settle_claims(self, reservation: Reservation, work: Work) -> None:
        state = self._world.state
        found = orphans.plan(reservation, state.pods_in(reservation.namespace), state.finished, self._world.now)
        if found.next is not None:
            self._world.agenda.put(work, found.next)
        for withdrawal in found.withdrawals:
            await self._withdraw(withdrawal)
        if found.release is not None:
            await self._drop(found.release.reservation, found.release.tokens)
        if found.suspicion is not None:
            await self._verify(found.suspicion)

    async def _withdraw(self, withdrawal: orphans.Withdrawal) -> None:
        """The pod first: its new resourceVersion makes an opening patch under way miss. One that has landed counts."""
        world, pod = self._world, withdrawal.pod
        try:
            await world.writes.withdraw_pod(pod, _withdrawn(pod, withdrawal.reservation, world.now))
        except NotFound:
            log.info("pod.gone", pod=str(pod.key))
        except Conflict as miss:
            log.info("withdraw.missed", pod=str(pod.key), why=str(miss))
            world.agenda.put(Work(Kind.RESERVATION, *withdrawal.reservation.key), world.now + WITHDRAW_AGAIN)
            return
        await self._drop(withdrawal.reservation, (withdrawal.token,))

    async def _verify(self, suspicion: orphans.Suspicion) -> None:
        """A quorum list begun now: what it does not show is not there, and cannot come any more."""
        listed = await self._world.writes.list_pods(suspicion.reservation.namespace)
        orphaned = orphans.still_orphaned(suspicion.tokens, listed)
        if not orphaned:
            return
        ORPHANS_DROPPED.inc(len(orphaned))
        never_stored = [token for token in orphaned if _minted_at_create(token)]
        more = []
        if never_stored and suspicion.reservation.phase in OPENABLE:
            until = format_instant(self._world.now + FAST_PATH_PAUSE)
            more = [{"op": "add", "path": "/status/fastPathUntil", "value": until}]
        await self._drop(suspicion.reservation, orphaned, more)

    async def _drop(
        self, reservation: Reservation, orphaned: tuple[Token, ...], more: list[dict[str, Any]] | None = None
    ) -> None:
        try:
            await self._world.writes.drop_claims(reservation, orphaned, more)
        except (Refused, NotFound) as miss:
            log.info("drop.missed", reservation=str(reservation.key), why=str(miss))
            await self._read(reservation.key)
            return
        self._world.state.forget_finished(orphaned)
        log.info("claims.dropped", reservation=str(reservation.key), tokens=len(orphaned), paused=bool(more))


def _withdrawn(pod: PodView, reservation: Reservation, now: Instant) -> dict[str, str | None]:
    """Always a change of the pod, whatever it carries: a patch that changes nothing leaves its version as it is."""
    until = None if keys.HELD_UNTIL in pod.annotations else format_instant(now)
    annotations: dict[str, str | None] = {keys.CLAIM: None, keys.HELD_UNTIL: until}
    if pod.gated:
        sentence = f"reservation {reservation.name} is over; the pod is decided again"
        annotations[keys.HELD] = Hold(Reason.UNDECIDED, sentence).annotation
    return annotations


def _minted_at_create(token: Token) -> bool:
    """The reconciler's tokens end in a pod uid: that pod was stored."""
    parts = tokens.parse(token)
    return parts is not None and "-" not in parts.rest
