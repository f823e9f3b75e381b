"""Requests to the API server: raw bytes in and out, and errors of ours. Decodes nothing, decides nothing.

A request is sent once. Only a GET that was throttled is sent again, a bounded number of times within its own timeout.
(aiohttp itself sends a GET or DELETE again when the kept connection that it chose turns out to be closed.)
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from secrets import SystemRandom
from typing import Final

import aiohttp
import msgspec
import structlog

from common.adapters import access, answers
from common.adapters.answers import Answer
from common.adapters.clock import monotonic
from common.adapters.lines import Lines
from common.domain.errors import OutcomeUnknown, Throttled
from common.domain.time import Instant

__all__ = ["JSON", "JSON_PATCH", "MERGE_PATCH", "STRATEGIC_MERGE", "Answer", "Kube", "OnDate", "connect"]

JSON: Final = "application/json"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"

OnDate = Callable[[Instant, float, float], None]
"""Called with an answer's `Date` and the monotonic times of sending and receiving."""

_CONNECT_S = 5.0
_KEEP_ALIVE_S = 45.0
_CONNECTIONS = 128
_READ_BUFFER = 1 << 18
_TRIES = 4
_UNAUTHORIZED = 401
_WATCH = "WATCH"
_CUT: Final = (OSError, aiohttp.ClientError)  # TimeoutError is an OSError

_log = structlog.get_logger(__name__)
_jitter = SystemRandom().random


async def _anonymous() -> str | None:
    return None


def _nothing(_date: Instant, _sent: float, _received: float) -> None:
    pass


class Kube:
    """One connection pool to one API server; make it with `connect`."""

    def __init__(
        self,
        session: aiohttp.ClientSession,
        base: str,
        *,
        authorization: Callable[[], Awaitable[str | None]] = _anonymous,
        on_date: OnDate = _nothing,
        proxy: str | None = None,
        server_name: str | None = None,
    ) -> None:
        self._session = session
        self._base = base
        self._authorization = authorization
        self._on_date = on_date
        self._proxy = proxy
        self._server_name = server_name

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float,
    ) -> Answer:
        """Send one request; `body` is bytes as they are, or any value that becomes JSON.

        Raises the ApiError tree; `OutcomeUnknown` with status 0 when no whole answer came within `timeout_s`.
        """
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        deadline = monotonic() + timeout_s
        tries = _TRIES if method == "GET" else 1
        while True:
            tries -= 1
            try:
                return await self._once(method, path, query, data, content_type, deadline - monotonic())
            except Throttled as throttled:
                pause = throttled.retry_after_s * (1 + _jitter() / 4)
                if tries < 1 or monotonic() + pause >= deadline:
                    raise
                await asyncio.sleep(pause)

    def stream(
        self, path: str, query: Mapping[str, str], idle_timeout_s: float
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Lines of a watch. Entering raises as `request` does; iterating raises OutcomeUnknown when it is cut.

        `idle_timeout_s` bounds the wait for each piece of the answer, from the first on.
        """
        return self._stream(path, query, idle_timeout_s)

    async def _once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        data: bytes | None,
        content_type: str,
        timeout_s: float,
    ) -> Answer:
        timeout = aiohttp.ClientTimeout(total=max(timeout_s, 0.001), sock_connect=_CONNECT_S)
        headers = await self._headers()
        if data is not None:
            headers["Content-Type"] = content_type
        try:
            sent = monotonic()
            async with self._open(method, path, query, headers, timeout, data) as response:
                self._take_date(response, sent)
                content = await response.read()
        except _CUT as cut:
            raise _unknown(method, path, cut) from cut
        self._check(response, method, path, content)
        return Answer(response.status, content, response.headers)

    @asynccontextmanager
    async def _stream(
        self, path: str, query: Mapping[str, str], idle_timeout_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=idle_timeout_s)
        headers = await self._headers()
        sent = monotonic()
        try:
            response = await self._open("GET", path, query, headers, timeout, None)
        except _CUT as cut:
            raise _unknown(_WATCH, path, cut) from cut
        try:
            self._take_date(response, sent)
            if not answers.is_ok(response.status):
                self._check(response, _WATCH, path, await _rest(response, path))
            async with aclosing(_lines(response, path)) as pieces:
                yield pieces
        finally:
            response.close()

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        headers: dict[str, str],
        timeout: aiohttp.ClientTimeout,
        data: bytes | None,
    ) -> "aiohttp.client._RequestContextManager":
        return self._session.request(
            method,
            self._base + path,
            params=query,
            data=data,
            headers=headers,
            timeout=timeout,
            proxy=self._proxy,
            server_hostname=self._server_name,
            allow_redirects=False,
        )

    async def _headers(self) -> dict[str, str]:
        # Compressing costs both sides more than a cluster's own network saves.
        headers = {"Accept": JSON, "Accept-Encoding": "identity"}
        authorization = await self._authorization()
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers

    def _take_date(self, response: aiohttp.ClientResponse, sent: float) -> None:
        received = monotonic()
        date = answers.date_of(response.headers.get("Date", ""))
        if date is not None:
            self._on_date(date, sent, received)

    @staticmethod
    def _check(response: aiohttp.ClientResponse, method: str, path: str, content: bytes) -> None:
        if answers.is_ok(response.status):
            return
        if response.status == _UNAUTHORIZED:
            _log.error("api.unauthorized", method=method, path=path, hint="our token is not accepted, is it expired?")
        raise answers.error_of(response.status, content, response.headers.get("Retry-After", ""))


@asynccontextmanager
async def connect(settings: access.KubeSettings, on_date: OnDate = _nothing) -> AsyncIterator[Kube]:
    """Load the configuration and hold the connection pool open."""
    async with access.load(settings) as found, session(found) as pool:
        yield Kube(
            pool,
            found.base,
            authorization=found.authorization,
            on_date=on_date,
            proxy=found.proxy,
            server_name=found.server_name,
        )


def session(found: access.Access) -> aiohttp.ClientSession:
    """The connection pool; close it."""
    connector = aiohttp.TCPConnector(limit=_CONNECTIONS, ssl=found.tls, keepalive_timeout=_KEEP_ALIVE_S)
    return aiohttp.ClientSession(
        connector=connector,
        headers={"User-Agent": access.AGENT},
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=_READ_BUFFER,
    )


def _unknown(method: str, path: str, cut: Exception) -> OutcomeUnknown:
    return OutcomeUnknown(0, f"{method} {path}: {type(cut).__name__}: {cut}".rstrip(": "))


async def _rest(response: aiohttp.ClientResponse, path: str) -> bytes:
    try:
        return await response.read()
    except _CUT as cut:
        raise _unknown(_WATCH, path, cut) from cut


async def _lines(response: aiohttp.ClientResponse, path: str) -> AsyncGenerator[bytes, None]:
    split = Lines()
    try:
        async for piece in response.content.iter_any():
            for line in split.feed(piece):
                yield line
    except _CUT as cut:
        raise _unknown(_WATCH, path, cut) from cut
