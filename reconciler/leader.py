"""Holds the Lease from a thread and a connection of its own, so that a busy event loop never loses it."""

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import replace
from typing import NoReturn

import structlog

from common.adapters import paths
from common.adapters.kube import JSON_PATCH, Kube
from common.domain.errors import ApiError, Conflict, MalformedObject, NotFound
from common.domain.time import Clock
from reconciler.election import LeaseRecord, Sighting, Step, Timing, next_step, sight, still_leads
from reconciler.lease import NAME, decode_lease, lease_body, lease_operations

log = structlog.get_logger(__name__)


class Leadership:
    """`leads()` may be asked from any thread; `on_change` is called on the main loop with the new answer."""

    def __init__(
        self,
        connect: Callable[[], AbstractAsyncContextManager[Kube]],
        clock: Clock,
        monotonic: Callable[[], float],
        namespace: str,
        identity: str,
        timing: Timing,
        on_change: Callable[[bool], None],
    ) -> None:
        self._connect = connect
        self._clock = clock
        self._monotonic = monotonic
        self._namespace = namespace
        self.identity = identity
        self._timing = timing
        self._on_change = on_change
        self._renewed_s: float | None = None
        self._led = False
        self._stopping = threading.Event()
        self._woken = asyncio.Event()
        """Set on the thread's loop: this process is to stop, or somebody else has written the Lease."""
        self._own_loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Future[None] | None = None
        self._thread: threading.Thread | None = None
        self.term = 0
        """`leaseTransitions` of the current term; with the identity it names the leader's stamp."""

    def leads(self) -> bool:
        return still_leads(self._renewed_s, self._timing, self._monotonic())

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._ended = loop.create_future()
        self._thread = threading.Thread(target=self._run, args=(loop,), name="lease", daemon=True)
        self._thread.start()

    async def run(self) -> None:
        """Start, and wait for the end of the thread; raises what ended it: a process that cannot lead is broken."""
        self.start()
        if self._ended is not None:
            await self._ended

    async def stop(self, timeout_s: float) -> None:
        """Give the Lease up, so that a successor starts at once; bounded."""
        self._stopping.set()
        if self._own_loop is not None:
            with suppress(RuntimeError):  # the thread may have ended already
                self._own_loop.call_soon_threadsafe(self._woken.set)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, timeout_s)

    def _run(self, main: asyncio.AbstractEventLoop) -> None:
        error: BaseException | None = None
        try:
            asyncio.run(self._campaign(main))
        except BaseException as cause:  # noqa: BLE001 - carried over to the main loop, which must not go on without it
            error = cause
        with suppress(RuntimeError):  # the main loop may be gone already during shutdown
            main.call_soon_threadsafe(self._tell_end, error)

    def _tell_end(self, error: BaseException | None) -> None:
        if self._ended is None or self._ended.done():
            return
        if error is not None:
            self._ended.set_exception(RuntimeError(f"the lease's thread ended: {error}"))
        else:
            self._ended.set_result(None)

    async def _campaign(self, main: asyncio.AbstractEventLoop) -> None:
        sighting: Sighting | None = None
        self._own_loop = asyncio.get_running_loop()
        async with self._connect() as kube, asyncio.TaskGroup() as tasks:
            listening = tasks.create_task(self._listen(kube))
            try:
                while not self._stopping.is_set():
                    # Before the look, so that nothing written after it goes unheard.
                    self._woken.clear()
                    sighting = await self._round(kube, sighting)
                    self._announce(main)
                    await self._rest()
                    self._announce(main)
                await self._release(kube, sighting)
            finally:
                listening.cancel()
                self._renewed_s = None
                self._announce(main)

    async def _rest(self) -> None:
        """Until the next look is due, or something calls for it sooner."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._timing.retry_s):
                await self._woken.wait()

    async def _listen(self, kube: Kube) -> NoReturn:
        """Wakes a standby when the Lease is written, so that one given up is taken at once.

        A hint and no more: what counts is read, and where nothing is heard the standby looks every `retry_s`.
        """
        query = {"watch": "1", "fieldSelector": f"metadata.name={NAME}"}
        while True:
            with suppress(ApiError):
                # A holder that lives writes every `retry_s`: silence for longer may be a dead connection.
                async with kube.stream(paths.leases(self._namespace), query, self._timing.lease_s) as lines:
                    async for _ in lines:
                        if not self.leads():
                            self._woken.set()
            await asyncio.sleep(self._timing.retry_s)

    def _announce(self, main: asyncio.AbstractEventLoop) -> None:
        leads = self.leads()
        if leads != self._led:
            self._led = leads
            log.info("leader.changed", leads=leads, identity=self.identity, term=self.term)
            with suppress(RuntimeError):  # the main loop may be gone already during shutdown
                main.call_soon_threadsafe(self._on_change, leads)

    async def _round(self, kube: Kube, before: Sighting | None) -> Sighting | None:
        try:
            sighting = await self._look(kube, before)
        except (ApiError, MalformedObject) as error:
            log.warning("leader.lease_unreadable", error=str(error))
            return before
        step = next_step(self.identity, sighting, self._timing, self._monotonic())
        if step is Step.WAIT:
            self._renewed_s = None
            return sighting
        # Others count from when they see the write, which is after it was sent.
        sent_s = self._monotonic()
        try:
            written = await self._write(kube, step, sighting)
        except Conflict:
            return None if step is Step.CREATE else replace(sighting, stale=True) if sighting else None
        except (ApiError, MalformedObject) as error:
            log.warning("leader.lease_unwritable", error=str(error))
            return replace(sighting, stale=True) if sighting else None
        self.term = written.transitions
        self._renewed_s = sent_s
        return Sighting(written, self._monotonic())

    async def _look(self, kube: Kube, before: Sighting | None) -> Sighting | None:
        """What the Lease says; a holder renews on what its own last write returned."""
        if before is not None and before.record.holder == self.identity and not before.stale:
            return before
        try:
            answer = await kube.request("GET", paths.leases(self._namespace, NAME), timeout_s=self._timing.retry_s)
        except NotFound:
            return None
        return sight(before, decode_lease(answer.body), self._monotonic())

    async def _write(self, kube: Kube, step: Step, sighting: Sighting | None) -> LeaseRecord:
        lease_s = int(self._timing.lease_s)
        if step is Step.CREATE or sighting is None:
            answer = await kube.request(
                "POST",
                paths.leases(self._namespace),
                body=lease_body(self._namespace, self.identity, lease_s, self._clock.now()),
                timeout_s=self._timing.retry_s,
            )
        else:
            operations = lease_operations(
                sighting.record, self.identity, lease_s, self._clock.now(), taken=step is Step.TAKE
            )
            answer = await kube.request(
                "PATCH",
                paths.leases(self._namespace, NAME),
                body=operations,
                content_type=JSON_PATCH,
                timeout_s=self._timing.retry_s,
            )
        return decode_lease(answer.body)

    async def _release(self, kube: Kube, sighting: Sighting | None) -> None:
        if sighting is None or sighting.record.holder != self.identity:
            return
        self._renewed_s = None
        operations = lease_operations(sighting.record, "", 1, self._clock.now(), taken=False)
        with suppress(ApiError):
            await kube.request(
                "PATCH",
                paths.leases(self._namespace, NAME),
                body=operations,
                content_type=JSON_PATCH,
                timeout_s=self._timing.retry_s,
            )
            log.info("leader.released", identity=self.identity)
