"""Kubernetes Events: told when it is convenient, never in anybody's way.

Telling is best effort: what does not fit into the queue, or is refused, is counted and dropped. The same thing about
the same object is told once per `repeat`; told again after that it becomes a series of the Event that is there.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from secrets import token_hex
from typing import Final, Literal, NoReturn, Protocol

import structlog

from common.adapters import metrics, paths
from common.adapters.answers import Answer
from common.adapters.kube import JSON, MERGE_PATCH
from common.domain import keys
from common.domain.errors import ApiError, NotFound, Throttled
from common.domain.gpu_class import GpuClass
from common.domain.pod import PodView
from common.domain.reservation import ObjectKey, Reservation
from common.domain.time import Clock, Instant

CONTROLLER: Final = f"{keys.GROUP}/reconciler"
NOTE_LIMIT: Final = 1024
Type = Literal["Normal", "Warning"]

_TIMEOUT_S = 10.0
_REMEMBERED = 10_000
_NAME_LIMIT = 230

_log = structlog.get_logger(__name__)


class Api(Protocol):
    """What the recorder asks of `Kube`."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float,
    ) -> Answer: ...


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an Event is about."""

    kind: str
    key: ObjectKey
    uid: str
    api_version: str = keys.API_VERSION

    @classmethod
    def pod(cls, pod: PodView) -> "Regarding":
        return cls("Pod", pod.key, pod.uid, "v1")

    @classmethod
    def owner_of(cls, pod: PodView) -> "Regarding":
        """The controller that people know. Of a Deployment no uid is known; the API takes an Event without one."""
        kind, _, name = pod.owner.partition("/")
        return cls(kind, ObjectKey(pod.namespace, name), pod.owner_uid, pod.owner_api)

    @property
    def identity(self) -> str:
        """Anybody may write any uid as that of an owner, so it is not taken alone."""
        return f"{self.kind} {self.key} {self.uid}"

    @classmethod
    def reservation(cls, reservation: Reservation) -> "Regarding":
        return cls("GPUReservation", reservation.key, reservation.uid)

    @classmethod
    def gpu_class(cls, gpu_class: GpuClass) -> "Regarding":
        return cls("GPUClass", ObjectKey("", gpu_class.name), gpu_class.uid)


@dataclass(frozen=True, slots=True)
class Pace:
    """`burst` events at once, then `per_second`."""

    per_second: float = 10.0
    burst: int = 50
    waiting: int = 1000
    repeat: timedelta = timedelta(minutes=30)


_What = tuple[str, str, str]


@dataclass(slots=True, eq=False)
class _Told:
    regarding: Regarding
    reason: str
    action: str
    note: str
    type: Type
    last: Instant
    queued_at: float
    count: int = 1
    name: str = ""
    """Of the stored Event; empty until it is stored."""

    @property
    def what(self) -> _What:
        return self.regarding.identity, self.reason, self.note


@dataclass(slots=True)
class EventRecorder:
    """`record` from anywhere on the loop; `run` as a task sends."""

    api: Api
    clock: Clock
    instance: str
    read: Callable[[], float]
    pace: Pace = field(default_factory=Pace)
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _told: OrderedDict[_What, _Told] = field(default_factory=OrderedDict)
    _queue: deque[_Told] = field(default_factory=deque)
    _more: asyncio.Event = field(default_factory=asyncio.Event)

    def record(self, regarding: Regarding, reason: str, action: str, note: str, type_: Type = "Normal") -> None:
        """Queue one Event; returns at once."""
        what = (regarding.identity, reason, note)
        told = self._told.get(what)
        now = self.read()
        if told is not None:
            told.count += 1
            told.last = self.clock.now()
            if now - told.queued_at < self.pace.repeat.total_seconds():
                metrics.EVENTS.labels("repeated").inc()
                return
            told.queued_at = now
        else:
            told = _Told(regarding, reason, action, note, type_, self.clock.now(), now)
            self._told[what] = told
        self._told.move_to_end(what)
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        self._enqueue(told)

    def pod(self, pod: PodView, reason: str, action: str, note: str, type_: Type = "Normal") -> None:
        self.record(Regarding.pod(pod), reason, action, note, type_)

    def reservation(
        self, reservation: Reservation, reason: str, action: str, note: str, type_: Type = "Normal"
    ) -> None:
        self.record(Regarding.reservation(reservation), reason, action, note, type_)

    async def run(self) -> NoReturn:
        """Send what is queued, oldest first, until cancelled."""
        allowance, filled_at = float(self.pace.burst), self.read()
        while True:
            while not self._queue:
                self._more.clear()
                await self._more.wait()
            now = self.read()
            allowance = min(float(self.pace.burst), allowance + (now - filled_at) * self.pace.per_second)
            filled_at = now
            if allowance < 1:
                await self.sleep((1 - allowance) / self.pace.per_second)
                continue
            allowance -= 1
            await self._send(self._queue.popleft())

    def _enqueue(self, told: _Told) -> None:
        if len(self._queue) >= self.pace.waiting:
            self._forget(self._queue.popleft())
            metrics.EVENTS.labels("dropped").inc()
        self._queue.append(told)
        self._more.set()

    async def _send(self, told: _Told) -> None:
        try:
            await self._store(told)
        except Throttled as throttled:
            # The API server has more important things to do: let it, and all that waits here with it.
            await self.sleep(throttled.retry_after_s)
            self._failed(told, throttled)
        except ApiError as error:
            self._failed(told, error)
        else:
            metrics.EVENTS.labels("sent").inc()

    def _forget(self, told: _Told) -> None:
        """It was not told after all: the next time it is not a repetition."""
        self._told.pop(told.what, None)

    def _failed(self, told: _Told, error: ApiError) -> None:
        self._forget(told)
        metrics.EVENTS.labels("failed").inc()
        _log.info("events.failed", reason=told.reason, error=type(error).__name__, message=str(error))

    async def _store(self, told: _Told) -> None:
        namespace = told.regarding.key.namespace or "default"
        if told.name and told.count > 1:
            series = {"series": {"count": told.count, "lastObservedTime": _micro(told.last)}}
            path = paths.events(namespace, told.name)
            try:
                await self.api.request("PATCH", path, body=series, content_type=MERGE_PATCH, timeout_s=_TIMEOUT_S)
            except NotFound:
                told.count = 1  # Events are kept for an hour; this one is told anew
            else:
                return
        name = f"{told.regarding.key.name[:_NAME_LIMIT]}.{token_hex(8)}"
        body = _body(told, namespace, name, self.instance)
        await self.api.request("POST", paths.events(namespace), body=body, timeout_s=_TIMEOUT_S)
        told.name = name


def _body(told: _Told, namespace: str, name: str, instance: str) -> dict[str, object]:
    regarding = {
        "apiVersion": told.regarding.api_version,
        "kind": told.regarding.kind,
        "name": told.regarding.key.name,
    }
    if told.regarding.uid:
        regarding["uid"] = told.regarding.uid
    if told.regarding.key.namespace:
        regarding["namespace"] = told.regarding.key.namespace
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "eventTime": _micro(told.last),
        "reportingController": CONTROLLER,
        "reportingInstance": instance[:128],
        "regarding": regarding,
        "reason": told.reason,
        "action": told.action,
        "note": _clip(told.note),
        "type": told.type,
    }


def _micro(instant: Instant) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _clip(note: str) -> str:
    """The API server counts bytes."""
    if len(encoded := note.encode()) <= NOTE_LIMIT:
        return note
    ellipsis = "\N{HORIZONTAL ELLIPSIS}"
    return encoded[: NOTE_LIMIT - len(ellipsis.encode())].decode(errors="ignore") + ellipsis
