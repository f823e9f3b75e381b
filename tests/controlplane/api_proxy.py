"""A fault proxy between one process and the API server.

It ends TLS, passes tokens on, and breaks what a test wants broken.
"""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from email.utils import format_datetime, parsedate_to_datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from aiohttp import ClientResponse, ClientSession, ClientTimeout, TCPConnector, web
from multidict import CIMultiDict
from yarl import URL

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.loop_thread import LoopThread
from tests.controlplane.proxy_rules import (
    Action,
    Answer,
    Drop,
    Exchange,
    Gate,
    Outcome,
    Pass,
    Rule,
    When,
    dropping,
)

HOP_BY_HOP = frozenset(
    {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding", "te"}
)
LARGEST_BODY = 64 << 20
IS_WATCH = re.compile(r"[?&]watch=(true|1)\b")


class Stall:
    """Keeps back the lines of matching watches, from the first wanted one on, while the streams stay open."""

    def __init__(self, path: str, line: str = "") -> None:
        """Choose the watches by their path, and the first line that is kept back."""
        self.gate = Gate()
        self._path = re.compile(path)
        self._line = re.compile(line.encode())
        self._stalled = False

    def concerns(self, path: str, line: bytes) -> bool:
        """Say whether this line is kept back."""
        if not self._path.search(path):
            return False
        self._stalled = self._stalled or bool(self._line.search(line))
        return self._stalled

    def release(self) -> None:
        """Deliver what was kept back, and everything after it."""
        self.gate.open()


class ApiProxy:
    """One proxy, for one client: give it a kubeconfig with server=proxy.server and a token."""

    def __init__(self, control_plane: ControlPlane, name: str = "api-proxy") -> None:
        """Stand before this control plane, with a certificate from its authority."""
        self.name = name
        self.server = ""
        self.date_shift = timedelta()
        self._upstream = control_plane.server
        self._pair = control_plane.ca.server(name)
        self._ca: Path = control_plane.ca.file
        self._rules: list[Rule] = []
        self._stalls: list[Stall] = []
        self._streams: list[tuple[str, web.BaseRequest]] = []
        self._exchanges: list[Exchange] = []
        self._guard = threading.Lock()

    def __enter__(self) -> Self:
        """Start listening."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and let go of everything that is held."""
        self.stop()

    def start(self) -> Self:
        """Start listening on a free port."""
        self._thread = LoopThread(self.name)
        self._thread.run(self._open())
        return self

    def stop(self) -> None:
        """Stop, and let go of everything that is held."""
        for stall in self._stalls:
            stall.release()
        self._thread.run(self._close())
        self._thread.stop()

    def rule(
        self,
        action: Action,
        *,
        method: str = "",
        path: str = "",
        body: str = "",
        nth: int = 1,
        times: int | None = 1,
        when: When = "before",
    ) -> Rule:
        """Install a rule; rules are tried in the order of installation, and the first that claims a request has it."""
        rule = Rule(action, method=method, path=path, body=body, nth=nth, times=times, when=when)
        with self._guard:
            self._rules.append(rule)
        return rule

    def remove(self, rule: Rule) -> None:
        """Take a rule away."""
        with self._guard:
            self._rules.remove(rule)

    def clear(self) -> None:
        """Take all rules and stalls away."""
        with self._guard:
            self._rules.clear()
            stalls, self._stalls = self._stalls, []
        for stall in stalls:
            stall.release()

    def stall_watches(self, path: str, line: str = "") -> Stall:
        """Keep back the lines of watches, those that are open and those that will be, until the stall is released."""
        stall = Stall(path, line)
        with self._guard:
            self._stalls.append(stall)
        return stall

    def cut_watches(self, path: str = "") -> None:
        """Cut the matching watches that are open."""

        def cut() -> None:
            for where, request in self._streams:
                if re.search(path, where):
                    _abort(request)

        self._thread.post(cut)

    @contextmanager
    def partitioned(self) -> Iterator[None]:
        """Keep the client away from the API server for the time of a block."""
        rule = self.rule(dropping(), times=None)
        with self._guard:
            self._rules.insert(0, self._rules.pop())
        self.cut_watches()
        try:
            yield
        finally:
            self.remove(rule)

    def writes(self) -> Sequence[Exchange]:
        """Return the writes that came by, in the order of their arrival."""
        with self._guard:
            return [exchange for exchange in self._exchanges if exchange.is_write]

    async def _open(self) -> None:
        upstream = ssl.create_default_context(cafile=str(self._ca))
        self._http = ClientSession(
            connector=TCPConnector(ssl=upstream, limit=0),
            timeout=ClientTimeout(total=None, sock_connect=10),
            auto_decompress=False,
        )
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_route("*", "/{any:.*}", self._serve)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, keepalive_timeout=3600)
        await self._runner.setup()
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self._pair.certificate, self._pair.key)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        self.server = f"https://127.0.0.1:{self._runner.addresses[0][1]}"

    async def _close(self) -> None:
        await self._runner.cleanup()
        await self._http.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        exchange = Exchange(
            request.method, request.raw_path, await request.read(), request.headers.get("User-Agent", "")
        )
        with self._guard:
            self._exchanges.append(exchange)
        rule = self._claiming(exchange)
        if rule is not None and rule.when == "before":
            instead = _instead(await rule.action(exchange), request)
            if instead is not None:
                return instead
        headers = CIMultiDict(
            (name, value) for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP
        )
        url = URL(self._upstream + exchange.path, encoded=True)
        async with self._http.request(exchange.method, url, headers=headers, data=exchange.body or None) as upstream:
            exchange.status = upstream.status
            if IS_WATCH.search(exchange.path) and upstream.ok:
                return await self._stream(exchange, request, upstream)
            exchange.answer = await upstream.read()
            if rule is not None and rule.when == "after":
                instead = _instead(await rule.action(exchange), request)
                if instead is not None:
                    return instead
            return web.Response(status=upstream.status, headers=self._headers(upstream), body=exchange.answer)

    async def _stream(self, exchange: Exchange, request: web.Request, upstream: ClientResponse) -> web.StreamResponse:
        response = web.StreamResponse(status=upstream.status, headers=self._headers(upstream))
        await response.prepare(request)
        entry = (exchange.path, request)
        self._streams.append(entry)
        try:
            rest = b""
            async for chunk in upstream.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    await self._held(exchange, line)
                    await response.write(line + b"\n")
        except ConnectionError:
            _abort(request)
        finally:
            self._streams.remove(entry)
        return response

    async def _held(self, exchange: Exchange, line: bytes) -> None:
        with self._guard:
            gates = [stall.gate for stall in self._stalls if stall.concerns(exchange.path, line)]
        for gate in gates:
            await gate.hold(exchange)

    def _claiming(self, exchange: Exchange) -> Rule | None:
        with self._guard:
            return next((rule for rule in self._rules if rule.claims(exchange)), None)

    def _headers(self, upstream: ClientResponse) -> CIMultiDict[str]:
        kept = CIMultiDict((name, value) for name, value in upstream.headers.items() if name.lower() not in HOP_BY_HOP)
        if self.date_shift and "Date" in kept:
            kept["Date"] = format_datetime(parsedate_to_datetime(kept["Date"]) + self.date_shift, usegmt=True)
        return kept


def _instead(outcome: Outcome, request: web.BaseRequest) -> web.Response | None:
    match outcome:
        case Pass():
            return None
        case Drop():
            _abort(request)
            return web.Response()
        case Answer():
            return web.Response(status=outcome.status, headers=CIMultiDict(outcome.headers), body=outcome.body)


def _abort(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()
