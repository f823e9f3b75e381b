"""An API server for one collection, over real HTTP: lists in pages, watches with history, and faults on demand."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from common.adapters.kube import Kube, OnDate
from common.domain.reservation import ObjectKey

Manifest = dict[str, Any]


@dataclass
class Fault:
    """One answer instead of the proper one; `cut` closes the connection without any."""

    status: int = 500
    headers: dict[str, str] = field(default_factory=dict)
    body: Manifest | bytes = field(default_factory=dict)
    cut: bool = False
    hang: bool = False


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "1"


class FakeApi:
    """Serves whatever path is asked for from the same objects; `put` and `delete` are what others do in the cluster."""

    def __init__(self) -> None:
        self.version = 100
        self.objects: dict[ObjectKey, Manifest] = {}
        self.history: list[tuple[int, bytes]] = []
        self.compacted = 0
        self.requests: list[Request] = []
        self.faults: deque[Fault] = deque()
        self.list_faults: deque[Fault] = deque()
        self.watch_faults: deque[Fault] = deque()
        self.streams: dict[web.StreamResponse, asyncio.Transport | None] = {}
        self._feeds: dict[web.StreamResponse, asyncio.Queue[bytes | None]] = {}
        self._hung = asyncio.Event()

    # What happens in the cluster

    def put(self, manifest: Manifest) -> Manifest:
        """Create or change; the object gets the next resourceVersion."""
        key = _key(manifest)
        kind = "MODIFIED" if key in self.objects else "ADDED"
        self.version += 1
        stored = {**manifest, "metadata": {**manifest["metadata"], "resourceVersion": str(self.version)}}
        self.objects[key] = stored
        self._tell(kind, stored)
        return stored

    def delete(self, manifest: Manifest) -> None:
        self.version += 1
        gone = self.objects.pop(_key(manifest))
        self._tell("DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}})

    def bookmark(self) -> None:
        self._tell("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(self.version)}}, keep=False)

    def compact(self) -> None:
        """Forget the history: a watch from before now gets 410."""
        self.history.clear()
        self.compacted = self.version

    # Faults

    def say(self, line: bytes) -> None:
        """Put a line into every open watch."""
        for feed in self._feeds.values():
            feed.put_nowait(line)

    def release(self) -> None:
        """Let requests go on that a fault holds up."""
        self._hung.set()

    def end(self) -> None:
        """End every open watch as the server's timeout does."""
        for feed in self._feeds.values():
            feed.put_nowait(None)

    def cut(self) -> None:
        """Break every open watch in the middle."""
        for transport in list(self.streams.values()):
            if transport is not None:
                transport.abort()

    def watches(self) -> list[Request]:
        return [request for request in self.requests if request.is_watch]

    def lists(self) -> list[Request]:
        return [request for request in self.requests if request.method == "GET" and not request.is_watch]

    # HTTP

    async def handle(self, request: web.Request) -> web.StreamResponse:
        seen = Request(
            request.method,
            request.raw_path.split("?")[0],
            dict(request.query),
            dict(request.headers),
            await request.read(),
        )
        self.requests.append(seen)
        faults = self.watch_faults if seen.is_watch else self.list_faults
        fault = self.faults.popleft() if self.faults else faults.popleft() if faults else None
        if fault is not None:
            return await self._fail(request, fault)
        if seen.is_watch:
            return await self._watch(request, int(seen.query["resourceVersion"]))
        if seen.method == "GET":
            return self._list(seen.query)
        return web.json_response({"kind": "Status", "status": "Success"})

    async def _fail(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        if fault.hang:
            await self._hung.wait()
        if fault.cut and request.transport is not None:
            request.transport.abort()
        body = fault.body if isinstance(fault.body, bytes) else json.dumps(fault.body).encode()
        return web.Response(status=fault.status, headers=fault.headers, body=body)

    def _list(self, query: dict[str, str]) -> web.Response:
        keys = sorted(self.objects)
        start = int(query.get("continue", "0"))
        limit = int(query.get("limit", "0")) or len(keys)
        meta = {"resourceVersion": str(self.version)}
        if start + limit < len(keys):
            meta["continue"] = str(start + limit)
        return web.json_response(
            {"metadata": meta, "items": [self.objects[key] for key in keys[start : start + limit]]}
        )

    async def _watch(self, request: web.Request, since: int) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        feed: asyncio.Queue[bytes | None] = asyncio.Queue()
        if since < self.compacted:
            status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old resource version"}
            feed.put_nowait(_line("ERROR", status))
            feed.put_nowait(None)
        for version, past in self.history:
            if version > since:
                feed.put_nowait(past)
        self._feeds[response] = feed
        await response.prepare(request)
        self.streams[response] = request.transport
        try:
            while (line := await feed.get()) is not None:
                await response.write(line)
        finally:
            self._feeds.pop(response, None)
            self.streams.pop(response, None)
        return response

    def _tell(self, kind: str, manifest: Manifest, *, keep: bool = True) -> None:
        line = _line(kind, manifest)
        if keep:
            self.history.append((self.version, line))
        self.say(line)


@asynccontextmanager
async def serving(api: FakeApi, on_date: OnDate | None = None) -> AsyncIterator[Kube]:
    """A `Kube` that talks to the fake over a real connection."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        host, port = runner.addresses[0][:2]
        async with aiohttp.ClientSession() as session:
            base = f"http://{host}:{port}"
            yield Kube(session, base) if on_date is None else Kube(session, base, on_date=on_date)
    finally:
        api.release()
        api.end()
        await runner.cleanup()


def _line(kind: str, manifest: Manifest) -> bytes:
    return json.dumps({"type": kind, "object": manifest}).encode() + b"\n"


def _key(manifest: Manifest) -> ObjectKey:
    return ObjectKey(manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"])
