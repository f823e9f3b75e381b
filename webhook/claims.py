"""The committer: claims of one reservation share patches, one in flight per reservation and process (R1).

Whatever arrives while a patch is under way goes into the next one. A claim whose outcome is not known at its deadline
is late: its pod is stored held, with the token, and the reconciler opens it if the claim stands.
"""

import asyncio
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

import structlog

from common.domain.errors import ApiError, Conflict, MalformedObject, NotFound, Refused, Throttled
from common.domain.ports import ClaimsApi
from common.domain.reservation import MAX_CLAIMS, ObjectKey, Reservation, Token
from webhook.breaker import Breaker

_log = structlog.get_logger(__name__)


class Outcome(StrEnum):
    STANDS = "stands"
    FULL = "full"
    GONE = "gone"
    LATE = "late"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Claim:
    """How it went. `token` is None where no claim can stand; `reservation` is there only when it does stand."""

    outcome: Outcome
    token: Token | None = None
    reservation: Reservation | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """`attempts` bounds the requests of one batch, `waiting` the claims that queue for one reservation."""

    attempts: int = 4
    waiting: int = 1024
    pause_s: float = 0.05
    least_s: float = 0.02
    """With less time than this left a request is not worth sending."""


class ReservationView(Protocol):
    def find(self, key: ObjectKey) -> Reservation | None:
        """The newest state that this process knows."""
        ...

    def learn(self, body: bytes) -> Reservation:
        """Take an answer of the API server into the view and return it."""
        ...


@dataclass(slots=True, eq=False)
class _Ask:
    token: Token
    units: int
    deadline: float
    answer: asyncio.Future[Claim]
    sent: bool = False
    uncertain: bool = False
    """A request with this token was cut: it may land yet."""

    def settle(self, outcome: Outcome, reservation: Reservation | None = None) -> None:
        if self.answer.done():
            return
        may_stand = outcome in (Outcome.STANDS, Outcome.LATE) or self.uncertain
        self.answer.set_result(Claim(outcome, self.token if may_stand else None, reservation))


@dataclass(slots=True, eq=False)
class _Lane:
    """The claims of one reservation; a re-created one has another uid and another lane."""

    key: ObjectKey
    uid: str
    gpu_class: str
    waiting: deque[_Ask] = field(default_factory=deque)
    in_flight: dict[Token, int] = field(default_factory=dict)
    worker: asyncio.Task[None] | None = None


class Committer:
    """Bounded in everything: time per claim, requests per batch, claims per queue."""

    def __init__(
        self, api: ClaimsApi, view: ReservationView, breaker: Breaker, monotonic: Callable[[], float], pace: Pace
    ) -> None:
        self._api = api
        self._view = view
        self._breaker = breaker
        self._monotonic = monotonic
        self._pace = pace
        self._lanes: dict[tuple[ObjectKey, str], _Lane] = {}

    def in_flight(self, reservation: Reservation) -> Mapping[Token, int]:
        """Claims that are under way or queued, to be counted as taken when the next pod is routed."""
        lane = self._lanes.get((reservation.key, reservation.uid))
        return lane.in_flight if lane is not None else {}

    def units_in_flight(self, class_name: str) -> int:
        return sum(sum(lane.in_flight.values()) for lane in self._lanes.values() if lane.gpu_class == class_name)

    async def claim(self, reservation: Reservation, token: Token, units: int, deadline: float) -> Claim:
        """Answers by the monotonic `deadline` at the latest."""
        within_s = deadline - self._monotonic()
        if within_s < self._pace.least_s or not self._breaker.allows():
            return Claim(Outcome.SKIPPED)
        lane = self._lane_of(reservation)
        if len(lane.waiting) >= self._pace.waiting:
            return Claim(Outcome.SKIPPED)
        ask = _Ask(token, units, deadline, asyncio.get_running_loop().create_future())
        lane.waiting.append(ask)
        lane.in_flight[token] = units
        if lane.worker is None:
            lane.worker = asyncio.create_task(self._work(lane), name=f"claims of {lane.key}")
        try:
            async with asyncio.timeout(within_s):
                return await ask.answer
        except TimeoutError:
            if not ask.answer.cancelled():
                return ask.answer.result()
            return Claim(Outcome.LATE, token) if ask.sent else Claim(Outcome.SKIPPED)
        finally:
            if not ask.sent:
                lane.in_flight.pop(token, None)

    async def aclose(self) -> None:
        """Stop all workers; who still waits hears that its claim is late, or was never made."""
        workers = [lane.worker for lane in self._lanes.values() if lane.worker is not None]
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

    def _lane_of(self, reservation: Reservation) -> _Lane:
        place = (reservation.key, reservation.uid)
        lane = self._lanes.get(place)
        if lane is None:
            lane = self._lanes[place] = _Lane(*place, reservation.wish.gpu_class)
        return lane

    async def _work(self, lane: _Lane) -> None:
        batch: list[_Ask] = []
        try:
            while lane.waiting:
                batch = list(lane.waiting)
                lane.waiting.clear()
                await self._commit(lane, batch)
                for ask in batch:
                    lane.in_flight.pop(ask.token, None)
        finally:
            # Reached with asks left only by cancellation or a fault of ours: nobody is left waiting for nothing.
            for ask in (*batch, *lane.waiting):
                ask.settle(Outcome.LATE if ask.sent else Outcome.SKIPPED)
            del self._lanes[(lane.key, lane.uid)]

    async def _commit(self, lane: _Lane, batch: list[_Ask]) -> None:
        for attempt in range(self._pace.attempts):
            batch = self._fitting(lane, batch)
            left = max((ask.deadline for ask in batch), default=0.0) - self._monotonic()
            if not batch or left < self._pace.least_s:
                break
            pause = await self._attempt(lane, batch, left)
            if pause is None:
                return
            # Full jitter under a doubling bound, so that replicas do not come back together.
            pause += secrets.randbelow(int(self._pace.pause_s * 2**attempt * 1000) + 1) / 1000
            if pause > left:
                break
            await asyncio.sleep(pause)
        for ask in batch:
            ask.settle(Outcome.LATE if ask.uncertain else Outcome.SKIPPED)

    async def _attempt(self, lane: _Lane, batch: list[_Ask], left: float) -> float | None:
        """None when the batch is settled, otherwise the least seconds until it is worth asking again."""
        for ask in batch:
            ask.sent = True
        claims = {ask.token: ask.units for ask in batch}
        try:
            stored = self._view.learn(await self._api.add_claims(lane.key, lane.uid, claims, left))
        except NotFound:
            self._settle(batch, Outcome.GONE)
            return None
        except Refused as refusal:
            return await self._look_again(lane, batch, left, refusal)
        except Conflict:
            # The API server gave up on its own retries against other writers: nothing was written, and it is well.
            return 0.0
        except Throttled as error:
            self._breaker.missed()
            return error.retry_after_s
        except (ApiError, MalformedObject) as error:
            self._breaker.missed()
            _log.warning("claims.unknown", reservation=str(lane.key), claims=len(batch), why=str(error))
            for ask in batch:
                ask.uncertain = True
            return 0.0
        self._breaker.succeeded()
        self._settle(batch, Outcome.STANDS, stored)
        return None

    async def _look_again(self, lane: _Lane, batch: list[_Ask], left: float, refusal: Refused) -> float | None:
        """Refused: the view was behind. A quorum read says who still fits."""
        _log.info("claims.refused", reservation=str(lane.key), claims=len(batch), why=str(refusal))
        try:
            self._view.learn(await self._api.read_reservation(lane.key, left))
        except NotFound:
            self._settle(batch, Outcome.GONE)
            return None
        except (ApiError, MalformedObject):
            self._breaker.missed()
        else:
            self._breaker.succeeded()
        return 0.0

    def _fitting(self, lane: _Lane, batch: list[_Ask]) -> list[_Ask]:
        """Who still waits and fits by the newest view, first come first served; the others are told."""
        reservation = self._view.find(lane.key)
        if reservation is None or reservation.uid != lane.uid:
            self._settle(batch, Outcome.GONE)
            return []
        room, places = reservation.room, MAX_CLAIMS - len(reservation.claims)
        fitting = []
        for ask in batch:
            if ask.answer.done():
                continue
            if ask.token in reservation.claims:
                ask.settle(Outcome.STANDS, reservation)
            elif ask.units <= room and places > 0:
                room, places = room - ask.units, places - 1
                fitting.append(ask)
            else:
                ask.settle(Outcome.FULL)
        return fitting

    @staticmethod
    def _settle(batch: list[_Ask], outcome: Outcome, reservation: Reservation | None = None) -> None:
        for ask in batch:
            ask.settle(outcome, reservation)
