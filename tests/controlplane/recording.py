"""Records every change of a collection while a test runs: the history on which "never at any moment" is checked."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import httpx

from tests.controlplane.client import ApiClient
from tests.controlplane.discovery import JsonObject
from tests.controlplane.loop_thread import LoopThread


@dataclass(frozen=True)
class Change:
    """One event of the watch, and when it arrived by time.monotonic."""

    type: str
    object: JsonObject
    at: float


class Recorder:
    """A list, then a watch that is taken up again where it was cut; objects of the first list count as ADDED."""

    def __init__(self, client: ApiClient, key: str, namespace: str | None = None) -> None:
        """Choose what to record; nothing is recorded before the block is entered."""
        self._client = client
        self._key = key
        self._namespace = namespace
        self._changes: list[Change] = []
        self._lock = threading.Lock()
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        """Take the first list and start watching."""
        first = self._client.list(self._key, self._namespace)
        kind = {"apiVersion": first["apiVersion"], "kind": first["kind"].removesuffix("List")}
        for item in first["items"]:
            self._note("ADDED", kind | item)
        self._thread = LoopThread("recorder")
        self._thread.post(lambda: self._start(first["metadata"]["resourceVersion"]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; a recorder that broke makes the test fail, for it may have missed something."""
        self._thread.stop()
        if self._failure is not None and error is None:
            message = f"the recording of {self._key} has a gap"
            raise AssertionError(message) from self._failure

    def changes(self, name: str | None = None) -> Sequence[Change]:
        """Return what has been seen until now, of one object if it is named."""
        with self._lock:
            return [change for change in self._changes if name is None or change.object["metadata"]["name"] == name]

    def _note(self, kind: str, obj: JsonObject) -> None:
        with self._lock:
            self._changes.append(Change(kind, obj, time.monotonic()))

    def _start(self, version: str) -> None:
        self._task = asyncio.get_running_loop().create_task(self._watch(version))
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self._failure = task.exception()

    async def _watch(self, version: str) -> None:
        connection = self._client.connection
        headers = connection.headers()
        timeout = httpx.Timeout(30.0, read=None)
        async with httpx.AsyncClient(
            base_url=connection.server, verify=connection.tls(), headers=headers, timeout=timeout, trust_env=False
        ) as http:
            path = self._client.path(self._key, self._namespace)
            while True:
                params = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
                async with http.stream("GET", path, params=params) as answer:
                    answer.raise_for_status()
                    async for line in answer.aiter_lines():
                        version = self._take(json.loads(line))

    def _take(self, event: JsonObject) -> str:
        if event["type"] == "ERROR":
            message = f"watch error: {event['object']}"
            raise RuntimeError(message)
        if event["type"] != "BOOKMARK":
            self._note(event["type"], event["object"])
        return str(event["object"]["metadata"]["resourceVersion"])
