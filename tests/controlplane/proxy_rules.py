"""What a fault proxy does with which requests: rules, actions, and gates at which a test holds a request."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from tests.controlplane.polling import NotInTimeError


@dataclass
class Exchange:
    """One request through the proxy; the answer is there once the API server has given it."""

    method: str
    path: str
    body: bytes = field(repr=False)
    user_agent: str
    status: int | None = None
    answer: bytes = field(default=b"", repr=False)

    @property
    def json(self) -> Any:
        """Return the body of the request, decoded."""
        return json.loads(self.body)

    @property
    def is_write(self) -> bool:
        """Say whether the request may change something."""
        return self.method not in {"GET", "HEAD", "OPTIONS"}


@dataclass(frozen=True)
class Pass:
    """Go on as if the proxy were not there."""


@dataclass(frozen=True)
class Drop:
    """Cut the connection: the client learns nothing of the outcome."""


@dataclass(frozen=True)
class Answer:
    """Give this answer instead; with it a request that was not forwarded yet never is."""

    status: int
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "application/json"),)


Outcome: TypeAlias = Pass | Drop | Answer
Action: TypeAlias = Callable[[Exchange], Awaitable[Outcome]]
When: TypeAlias = Literal["before", "after"]
PASS = Pass()
DROP = Drop()


class Rule:
    """Applies an action to the requests that match, from the nth on, so many times.

    when="before": nothing has reached the API server yet. when="after": it has acted, but the client does not know.
    The expressions are searched in the method, the path with its query, and the body.
    """

    def __init__(
        self,
        action: Action,
        *,
        method: str = "",
        path: str = "",
        body: str = "",
        nth: int = 1,
        times: int | None = 1,
        when: When = "before",
    ) -> None:
        """Choose; times=None means for good."""
        self.action = action
        self.when: When = when
        self.matched = 0
        self.fired = 0
        self._method = re.compile(method)
        self._path = re.compile(path)
        self._body = re.compile(body.encode())
        self._nth = nth
        self._times = times

    def claims(self, exchange: Exchange) -> bool:
        """Count the request if it matches, and say whether the action is to be taken now."""
        fits = self._method.search(exchange.method) and self._path.search(exchange.path)
        if not fits or not self._body.search(exchange.body):
            return False
        self.matched += 1
        if self.matched < self._nth or (self._times is not None and self.fired >= self._times):
            return False
        self.fired += 1
        return True


class Gate:
    """Holds requests until a test opens it; the test can wait for the first one to arrive."""

    def __init__(self) -> None:
        """Start closed."""
        self.exchange: Exchange | None = None
        self._reached = threading.Event()
        self._guard = threading.Lock()
        self._opened = False
        self._waiters: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    @property
    def is_reached(self) -> bool:
        """Say whether a request has arrived."""
        return self._reached.is_set()

    def wait_reached(self, deadline_s: float, what: str = "request at the gate") -> Exchange:
        """Wait for the first request and return it."""
        if not self._reached.wait(deadline_s) or self.exchange is None:
            raise NotInTimeError(what, deadline_s, None, None)
        return self.exchange

    def open(self) -> None:
        """Let through what waits, and what comes later."""
        with self._guard:
            self._opened = True
            waiters, self._waiters = self._waiters, []
        for loop, event in waiters:
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)

    async def hold(self, exchange: Exchange) -> None:
        """Wait until the gate is open."""
        event = asyncio.Event()
        with self._guard:
            if self._opened:
                return
            self._waiters.append((asyncio.get_running_loop(), event))
        if not self._reached.is_set():
            self.exchange = exchange
            self._reached.set()
        await event.wait()


def dropping() -> Action:
    """Cut the connection."""
    return _then(DROP)


def holding(gate: Gate, then: Outcome = PASS) -> Action:
    """Hold the request at a gate; it goes on even if its client has given up, as on a slow network."""

    async def action(exchange: Exchange) -> Outcome:
        await gate.hold(exchange)
        return then

    return action


def delaying(seconds: float) -> Action:
    """Make the network slow."""

    async def action(_: Exchange) -> Outcome:
        await asyncio.sleep(seconds)
        return PASS

    return action


def answering(
    status: int, reason: str = "", message: str = "a test said so", *, retry_after_s: int | None = None
) -> Action:
    """Answer as the API server does when it refuses."""
    content = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "reason": reason,
        "message": message,
    }
    retry = () if retry_after_s is None else (("Retry-After", str(retry_after_s)),)
    return _then(Answer(status, json.dumps(content).encode(), (("Content-Type", "application/json"), *retry)))


def calling(callback: Callable[[], object], then: Outcome = PASS) -> Action:
    """Call a function of the test, plain (in a thread) or async, for example the SIGKILL of the client; then go on."""

    async def action(_: Exchange) -> Outcome:
        if inspect.iscoroutinefunction(callback):
            await callback()
        else:
            await asyncio.to_thread(callback)
        return then

    return action


def in_turn(*actions: Action) -> Action:
    """Take several actions, until one of them does not pass."""

    async def action(exchange: Exchange) -> Outcome:
        for step in actions:
            outcome = await step(exchange)
            if not isinstance(outcome, Pass):
                return outcome
        return PASS

    return action


def _then(outcome: Outcome) -> Action:
    async def action(_: Exchange) -> Outcome:
        return outcome

    return action
