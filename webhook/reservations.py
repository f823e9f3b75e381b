"""GPUReservations on their way in: who wrote them is stamped, and what the leader will say is said at once.

Limits are refusals, capacity is a warning: only the leader's confirmation, on a fresh view, denies for capacity.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from common.adapters.wire.reservation import ReservationWire, reservation_of
from common.domain import confirmation, keys, texts
from common.domain.confirmation import Judgement, Verdict
from common.domain.podpatch import map_operations
from common.domain.reservation import OPENABLE, TERMINAL, Reservation
from common.domain.time import SURE, Clock
from webhook.index import Index
from webhook.review import Decision, Request, allowed, denied, patched

_REFUSALS = frozenset({Judgement.OVER_LIMIT, Judgement.NOT_ALLOWED, Judgement.START_IN_PAST})
_UNCOUNTED = 1 << 40
"""Stands for the units of a class that nobody has counted yet: limits are judged, capacity is not (R4)."""


class Metadata(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class Stamped(msgspec.Struct, frozen=True):
    """A reservation as the stamp reads it; the schema has not judged it yet, so nothing is expected of the spec."""

    metadata: Metadata = Metadata()
    spec: Any = None


class Stamp:
    """Writes `created-by` and `changed-by` from the user of the request, whatever the request itself says."""

    async def decide(self, request: Request[Stamped], _within_s: float) -> Decision:
        if request.object is None:
            return allowed(request.uid)
        user = request.user_info.username
        wanted: dict[str, str | None]
        if request.old_object is None:
            wanted = {keys.CREATED_BY: user, keys.CHANGED_BY: user}
        else:
            before = request.old_object.metadata.annotations or {}
            same = request.object.spec == request.old_object.spec
            wanted = {
                keys.CREATED_BY: before.get(keys.CREATED_BY),
                keys.CHANGED_BY: before.get(keys.CHANGED_BY) if same else user,
            }
        present = request.object.metadata.annotations or None
        return patched(request.uid, map_operations("/metadata/annotations", present, wanted))


class Validator:
    """Answers from this replica's view; while that is not synced, or the time is not known, everything passes (R4)."""

    def __init__(
        self,
        index: Index,
        clock: Clock,
        synced: Callable[[], bool],
        display: texts.Display,
        uncertainty: timedelta = SURE,
    ) -> None:
        self._index = index
        self._clock = clock
        self._synced = synced
        self._display = display
        self._uncertainty = uncertainty

    async def decide(self, request: Request[ReservationWire], _within_s: float) -> Decision:
        if not self._synced() or self._clock.uncertainty() > self._uncertainty:
            return allowed(request.uid)
        old = reservation_of(request.old_object) if request.old_object is not None else None
        new = reservation_of(request.object) if request.object is not None else None
        if new is None or new.wish.cancel:
            return allowed(request.uid, self._ending(old))
        if old is not None and (new.wish == old.wish or old.phase in TERMINAL):
            return allowed(request.uid)
        verdict = self._judge(new)
        if verdict.reason in _REFUSALS:
            return denied(request.uid, verdict.message)
        return allowed(request.uid, [] if verdict.reason is Judgement.FITS else [_warning(verdict)])

    def _judge(self, new: Reservation) -> Verdict:
        gpu_class = self._index.class_named(new.wish.gpu_class)
        if gpu_class is None:
            return confirmation.unknown_class(new.wish.gpu_class, self._index.class_names)
        now = self._clock.now()
        counted = gpu_class.units
        bookable = (
            confirmation.bookable_units(gpu_class, counted.physical, counted.unreserved) if counted else _UNCOUNTED
        )
        others = [r for r in self._index.of_class(gpu_class.name) if r.key != new.key]
        if new.granted is not None and new.phase in OPENABLE:
            return confirmation.judge_change(new, new.granted, gpu_class, others, bookable, now, self._display)
        return confirmation.judge(new, gpu_class, others, bookable, now, self._display)

    def _ending(self, old: Reservation | None) -> list[str]:
        """Told when a promise whose window is open is taken back while pods use it."""
        if old is None or old.granted is None or old.phase not in OPENABLE or old.wish.cancel or not old.claims:
            return []
        if not old.granted.window.contains(self._clock.now()):
            return []
        return [texts.ended_early(old, len(old.claims))]


def _warning(verdict: Verdict) -> str:
    shown = (Judgement.NO_CAPACITY, Judgement.NO_NODE_FITS)
    return verdict.message if verdict.reason in shown else f"{verdict.reason}: {verdict.message}"
