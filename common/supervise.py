"""Keeps a process honest: tasks that may not end, checks that probes ask, and an orderly way out.

A task that dies takes the process down with exit code 1, so that Kubernetes starts a whole one again.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import structlog

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_CANCEL_WITHIN_S = 5.0

_log = structlog.get_logger(__name__)

Check = Callable[[], str | None]
"""None when all is well, else what is wrong, in one sentence."""


@dataclass(slots=True)
class Health:
    """Named checks behind /livez (is a restart the cure?) and /readyz (can it work now?)."""

    _live: dict[str, Check] = field(default_factory=dict)
    _ready: dict[str, Check] = field(default_factory=dict)

    def add_live(self, name: str, check: Check) -> None:
        self._live[name] = check

    def add_ready(self, name: str, check: Check) -> None:
        self._ready[name] = check

    def live(self) -> dict[str, str]:
        """What is wrong, by name of the check; empty when all is well."""
        return _problems(self._live)

    def ready(self) -> dict[str, str]:
        """As `live`; what is not live is not ready."""
        return _problems(self._live) | _problems(self._ready)


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    action: Callable[[], Awaitable[object]]
    within_s: float


class Supervisor:
    """Start tasks, name the steps of stopping in their order, then `run` until a signal or a death."""

    def __init__(self, health: Health | None = None, *, cancel_within_s: float = _CANCEL_WITHIN_S) -> None:
        self.health = health or Health()
        self.health.add_ready("stopping", lambda: "the process is stopping" if self.stopping else None)
        self._cancel_within_s = cancel_within_s
        self._tasks: dict[asyncio.Task[object], str] = {}
        self._steps: list[_Step] = []
        self._end = asyncio.Event()
        self._failed = False

    @property
    def stopping(self) -> bool:
        return self._end.is_set()

    def start(self, name: str, work: Coroutine[object, object, object]) -> None:
        """Run for the life of the process; its end, whatever the way, is a failure unless the process is stopping."""
        task: asyncio.Task[object] = asyncio.create_task(work, name=name)
        self._tasks[task] = name
        task.add_done_callback(self._ended)

    def on_stop(self, name: str, action: Callable[[], Awaitable[object]], within_s: float) -> None:
        """A step of stopping; steps run one after the other in the order in which they were named."""
        self._steps.append(_Step(name, action, within_s))

    def stop(self, why: str) -> None:
        """Begin to stop; from any callback on the loop."""
        if not self.stopping:
            _log.info("supervise.stopping", why=why)
            self._end.set()

    async def run(self) -> int:
        """Wait for the end, take the steps, cancel what is left; returns the exit code."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.stop, number.name)
        try:
            await self._end.wait()
            for step in self._steps:
                await self._take(step)
            await self._cancel_all()
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
        _log.info("supervise.stopped", failed=self._failed)
        return int(self._failed)

    def _ended(self, task: asyncio.Task[object]) -> None:
        name = self._tasks.pop(task)
        if self.stopping:
            if not task.cancelled() and task.exception() is not None:
                _log.error("supervise.task_failed_while_stopping", task=name, exc_info=task.exception())
            return
        self._failed = True
        cause = None if task.cancelled() else task.exception()
        # First the end, then the words for it: where stderr cannot be written, saying so must not keep a zombie alive.
        self._end.set()
        _log.critical("supervise.task_died", task=name, exc_info=cause)

    async def _take(self, step: _Step) -> None:
        try:
            async with asyncio.timeout(step.within_s):
                await step.action()
        except TimeoutError:
            self._failed = True
            _log.error("supervise.step_too_slow", step=step.name, within_s=step.within_s)
        except Exception:  # noqa: BLE001 - the steps after this one must be taken all the same
            self._failed = True
            _log.exception("supervise.step_failed", step=step.name)

    async def _cancel_all(self) -> None:
        """The youngest first, as the later ones build on the earlier."""
        left = list(reversed(self._tasks))
        for task in left:
            task.cancel()
        if left:
            _, stuck = await asyncio.wait(left, timeout=self._cancel_within_s)
            for task in stuck:
                self._failed = True
                _log.error("supervise.task_stuck", task=task.get_name(), within_s=self._cancel_within_s)


def exit_code(main: Callable[[], Coroutine[object, object, int]]) -> int:
    """Run a process's main coroutine; 130 when interrupted before its supervisor listens for signals."""
    with suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=_fastest_loop()) as runner:
        return runner.run(main())
    return 130


def _fastest_loop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Uvloop where there is one; None is asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415 - it is not there on every platform
    except ImportError:
        return None
    return uvloop.new_event_loop


def _problems(checks: dict[str, Check]) -> dict[str, str]:
    return {name: problem for name, check in checks.items() if (problem := check()) is not None}
