"""An API server in memory: resourceVersions, preconditions, JSON and merge patches, and R1 judged as the CRD judges it.

Implements what `common.adapters.kube.Kube` offers for single requests, and watches that begin now. A test lets one
request fail, or lets something happen before or after it, with `when`.
"""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import jsonpatch
from multidict import CIMultiDict, CIMultiDictProxy

from common.adapters.answers import Answer
from common.adapters.kube import JSON, JSON_PATCH, MERGE_PATCH
from common.domain.errors import Conflict, NotFound, Refused

Object = dict[str, Any]
Act = Callable[[], Awaitable[None] | None]
Told = Callable[[str, Object | None, Object | None], None]
"""Called with the plural, what was stored and what is stored now."""

_PATH = re.compile(
    r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/(?P<ns>[^/]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>\w+))?$"
)
_CONFLICT, _INVALID, _MISSING = 409, 422, 404
_TERMINAL = ("Denied", "Canceled", "Ended")


@dataclass(eq=False)
class Interruption:
    """Runs once, at the first request whose method and path match; raising from it is the request's failure."""

    method: str
    path: re.Pattern[str]
    act: Act
    after: bool
    body: re.Pattern[str]


@dataclass(eq=False)
class Feed:
    """One open watch; whoever writes may do so from another thread's loop."""

    plural: str
    loop: asyncio.AbstractEventLoop
    lines: asyncio.Queue[bytes]


@dataclass(eq=False)
class FakeKube:
    told: Told = lambda _plural, _old, _new: None
    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    accepted: list[tuple[str, str, Any]] = field(default_factory=list)
    feeds: list[Feed] = field(default_factory=list)
    _version: int = 100
    _interruptions: list[Interruption] = field(default_factory=list)

    def put(self, plural: str, stored: Mapping[str, Any]) -> Object:
        """Store as if somebody else had: a new resourceVersion, and the change is told."""
        new = deepcopy(dict(stored))
        meta = new["metadata"]
        key = (plural, meta.get("namespace", ""), meta["name"])
        self._version += 1
        meta["resourceVersion"] = str(self._version)
        old = self.objects.get(key)
        self.objects[key] = new
        self.told(plural, old, new)
        for feed in [feed for feed in self.feeds if feed.plural == plural]:
            line = json.dumps({"type": "MODIFIED" if old else "ADDED", "object": new}).encode()
            feed.loop.call_soon_threadsafe(feed.lines.put_nowait, line)
        return new

    def get(self, plural: str, namespace: str, name: str) -> Object:
        return self.objects[plural, namespace, name]

    def remove(self, plural: str, namespace: str, name: str) -> None:
        old = self.objects.pop((plural, namespace, name))
        self.told(plural, old, None)

    def when(self, method: str, path: str, act: Act, *, after: bool = False, body: str = "") -> None:
        self._interruptions.append(Interruption(method, re.compile(path), act, after, re.compile(body)))

    def writes(self, plural: str = "") -> list[tuple[str, str, Any]]:
        return [entry for entry in self.requests if entry[0] != "GET" and f"/{plural}" in entry[1]]

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        timeout_s: float,
    ) -> Answer:
        assert timeout_s > 0
        self.requests.append((method, path, deepcopy(body)))
        await self._interrupt(method, path, body, after=False)
        answer = self._answer(method, path, query or {}, body, content_type)
        if method != "GET":
            self.accepted.append((method, path, deepcopy(body)))
        await self._interrupt(method, path, body, after=True)
        return Answer(200, json.dumps(answer).encode(), CIMultiDictProxy(CIMultiDict()))

    @asynccontextmanager
    async def stream(
        self, path: str, query: Mapping[str, str], idle_timeout_s: float
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        assert query["watch"]
        assert idle_timeout_s > 0
        match = _PATH.match(path)
        assert match is not None, path
        feed = Feed(match["plural"], asyncio.get_running_loop(), asyncio.Queue())
        self.feeds.append(feed)
        try:
            async with aclosing(_told(feed)) as lines:
                yield lines
        finally:
            self.feeds.remove(feed)

    async def _interrupt(self, method: str, path: str, body: Any, *, after: bool) -> None:
        for entry in self._interruptions:
            if (
                entry.after is after
                and entry.method == method
                and entry.path.search(path)
                and entry.body.search(json.dumps(body))
            ):
                self._interruptions.remove(entry)
                acting = entry.act()
                if acting is not None:
                    await acting
                return

    def _answer(self, method: str, path: str, query: Mapping[str, str], body: Any, content_type: str) -> Object:
        match = _PATH.match(path)
        assert match is not None, path
        plural, namespace, name = match["plural"], match["ns"] or "", match["name"] or ""
        if method == "POST":
            return self.put(plural, body)
        if not name:
            return self._list(plural, namespace, query)
        stored = self.objects.get((plural, namespace, name))
        if stored is None:
            raise NotFound(_MISSING, f"{plural} {name} not found")
        if method == "GET":
            return stored
        if method == "DELETE":
            for field_, value in (body or {}).get("preconditions", {}).items():
                if stored["metadata"][field_] != value:
                    raise Conflict(_CONFLICT, f"the {field_} in the precondition is not the object's")
            self.remove(plural, namespace, name)
            return stored
        return self._patch(plural, stored, body, content_type)

    def _list(self, plural: str, namespace: str, query: Mapping[str, str]) -> Object:
        terms = [term for term in query.get("fieldSelector", "").split(",") if term]
        items = [
            item
            for (kind, ns, _), item in self.objects.items()
            if kind == plural and namespace in ("", ns) and all(_selected(item, term) for term in terms)
        ]
        return {"metadata": {"resourceVersion": str(self._version)}, "items": items}

    def _patch(self, plural: str, stored: Object, body: Any, content_type: str) -> Object:
        new = deepcopy(stored)
        if content_type == JSON_PATCH:
            for operation in body:
                if operation["path"] == "/metadata/resourceVersion":
                    self._same_version(stored, operation["value"])
            try:
                new = jsonpatch.apply_patch(new, [op for op in body if op["path"] != "/metadata/resourceVersion"])
            except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
                raise Refused(_INVALID, str(error)) from error
        else:
            version = body.get("metadata", {}).get("resourceVersion")
            if version is not None:
                self._same_version(stored, version)
            new = _merged(new, body, lists=content_type != MERGE_PATCH)
        if plural == "gpureservations":
            _judge(stored, new)
        return self.put(plural, new)

    def _same_version(self, stored: Object, version: str) -> None:
        if stored["metadata"]["resourceVersion"] != version:
            raise Conflict(_CONFLICT, "the object has been modified")


async def _told(feed: Feed) -> AsyncGenerator[bytes, None]:
    while True:
        yield await feed.lines.get()


def _judge(old: Object, new: Object) -> None:
    """R1 and terminal phases, as deploy/crds states them."""
    before, after = old.get("status", {}), new.get("status", {})
    was, claims = before.get("claims", {}), after.get("claims", {})
    granted = after.get("granted")
    grown = any(token not in was or units > was[token] for token, units in claims.items())
    fits = granted and after["phase"] in ("Confirmed", "Active") and sum(claims.values()) <= granted["units"]
    if grown and not fits:
        raise Refused(_INVALID, "claims need a Confirmed or Active reservation and must fit")
    if before.get("phase") in _TERMINAL and after.get("phase") != before["phase"]:
        raise Refused(_INVALID, "Denied, Canceled and Ended are final")
    if granted and after.get("phase") not in ("Confirmed", "Active"):
        raise Refused(_INVALID, "only a Confirmed or Active reservation holds a promise")


def _selected(item: Object, term: str) -> bool:
    path, equal, value = term.partition("!=") if "!=" in term else term.partition("=")
    found: Any = item
    for step in path.split("."):
        found = found.get(step, "")
    return bool(found != value) if equal == "!=" else bool(found == value)


def _merged(target: Any, patch: Any, *, lists: bool) -> Any:
    """RFC 7386; with `lists` also conditions by their type, as a strategic merge does."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        elif lists and key == "conditions":
            result[key] = _merged_conditions(result.get(key, []), value)
        else:
            result[key] = _merged(result.get(key), value, lists=lists)
    return result


def _merged_conditions(before: list[Object], patch: list[Object]) -> list[Object]:
    by_type = {condition["type"]: condition for condition in before}
    for condition in patch:
        if condition.get("$patch") == "delete":
            by_type.pop(condition["type"], None)
        else:
            by_type[condition["type"]] = {**by_type.get(condition["type"], {}), **condition}
    return list(by_type.values())
