"""A small synchronous Kubernetes client for tests, which hides nothing: plain JSON objects, status codes, warnings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

import httpx

from tests.controlplane.discovery import Discovery, JsonObject
from tests.controlplane.kubeconfig import Connection, read_kubeconfig

PatchKind = Literal["merge", "strategic", "json", "apply"]
CONTENT_TYPES: dict[PatchKind, str] = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}
NOT_FOUND = 404
WARNING = re.compile(r'^299 \S+ "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Reply:
    """What the API server answered."""

    status: int
    object: JsonObject
    warnings: tuple[str, ...]


class ApiError(Exception):
    """The API server refused."""

    def __init__(self, method: str, path: str, reply: Reply) -> None:
        """Keep the whole answer."""
        self.reply = reply
        self.code = reply.status
        self.reason = str(reply.object.get("reason", ""))
        self.message = str(reply.object.get("message", ""))
        super().__init__(f"{method} {path}: {self.code} {self.reason}: {self.message}")


@dataclass(frozen=True)
class WatchEvent:
    """One line of a watch."""

    type: str
    object: JsonObject


class ApiClient:
    """One identity at one API server. Threads may share it."""

    def __init__(
        self, connection: Connection, *, headers: Sequence[tuple[str, str]] = (), http: httpx.Client | None = None
    ) -> None:
        """Connect lazily; the headers go with every request."""
        self.connection = connection
        self._headers = [*connection.headers().items(), *headers]
        self._http = http or httpx.Client(
            base_url=connection.server,
            verify=connection.tls(),
            timeout=httpx.Timeout(60.0),
            limits=httpx.Limits(max_connections=500, max_keepalive_connections=100),
            trust_env=False,
        )
        self._discovery = Discovery(lambda path: self.request("GET", path).object)

    @classmethod
    def from_kubeconfig(cls, path: Path) -> ApiClient:
        """Take server and identity from a kubeconfig of this harness."""
        return cls(read_kubeconfig(path))

    def as_user(self, user: str, groups: Sequence[str] = ()) -> ApiClient:
        """Return a client that impersonates a user; it shares this one's connections."""
        headers = [("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups)]
        return ApiClient(self.connection, headers=headers, http=self._http)

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: object = None,
        params: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        timeout_s: float | None = None,
    ) -> Reply:
        """Send one request; an answer of 400 and above is raised as ApiError."""
        content = None if body is None else json.dumps(body).encode()
        headers = [*self._headers, *([("Content-Type", content_type)] if content is not None else [])]
        timeout = httpx.USE_CLIENT_DEFAULT if timeout_s is None else httpx.Timeout(timeout_s)
        answer = self._http.request(
            method, path, content=content, params=dict(params or {}), headers=headers, timeout=timeout
        )
        reply = Reply(answer.status_code, _json(answer), _warnings(answer))
        if answer.is_error:
            raise ApiError(method, path, reply)
        return reply

    def create(self, obj: JsonObject, *, namespace: str | None = None, dry_run: bool = False) -> Reply:
        """Create an object; its own namespace wins over the argument, and "default" over nothing."""
        resource = self._discovery.of_object(obj)
        where = obj.get("metadata", {}).get("namespace") or namespace or "default"
        return self.request("POST", resource.path(where), body=obj, params=_options(dry_run=dry_run))

    def replace(self, obj: JsonObject, *, subresource: str | None = None, dry_run: bool = False) -> Reply:
        """Put an object in the place of the stored one."""
        meta = obj["metadata"]
        path = self._discovery.of_object(obj).path(meta.get("namespace"), meta["name"], subresource)
        return self.request("PUT", path, body=obj, params=_options(dry_run=dry_run))

    def apply(
        self, obj: JsonObject, *, field_manager: str = "test", namespace: str | None = None, dry_run: bool = False
    ) -> Reply:
        """Apply an object on the server's side, taking conflicting fields over."""
        meta = obj["metadata"]
        path = self._discovery.of_object(obj).path(meta.get("namespace") or namespace or "default", meta["name"])
        params = _options(dry_run=dry_run) | {"fieldManager": field_manager, "force": "true"}
        return self.request("PATCH", path, body=obj, params=params, content_type=CONTENT_TYPES["apply"])

    def get(self, key: str, name: str, namespace: str | None = None, *, subresource: str | None = None) -> JsonObject:
        """Read one object; the key is "pods" or "gpuclasses.gpures.dev"."""
        return self.request("GET", self.path(key, namespace, name, subresource)).object

    def find(self, key: str, name: str, namespace: str | None = None) -> JsonObject | None:
        """Read one object, None when it is not there."""
        try:
            return self.get(key, name, namespace)
        except ApiError as error:
            if error.code == NOT_FOUND:
                return None
            raise

    def list(self, key: str, namespace: str | None = None, *, labels: str = "", fields: str = "") -> JsonObject:
        """Read a collection in one quorum read; the objects are in "items"."""
        params = {name: value for name, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}
        return self.request("GET", self.path(key, namespace), params=params).object

    def items(
        self, key: str, namespace: str | None = None, *, labels: str = "", fields: str = ""
    ) -> Sequence[JsonObject]:
        """Read the objects of a collection."""
        found: Sequence[JsonObject] = self.list(key, namespace, labels=labels, fields=fields)["items"]
        return found

    def patch(
        self,
        key: str,
        name: str,
        body: object,
        namespace: str | None = None,
        *,
        kind: PatchKind = "merge",
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> Reply:
        """Patch an object or a subresource of it."""
        path = self.path(key, namespace, name, subresource)
        return self.request(
            "PATCH", path, body=body, params=_options(dry_run=dry_run), content_type=CONTENT_TYPES[kind]
        )

    def delete(
        self, key: str, name: str, namespace: str | None = None, *, grace_s: int | None = None, uid: str | None = None
    ) -> Reply:
        """Delete an object, in the background as kubectl does."""
        body: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if grace_s is not None:
            body["gracePeriodSeconds"] = grace_s
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        return self.request("DELETE", self.path(key, namespace, name), body=body)

    @contextmanager
    def watch(
        self, key: str, namespace: str | None = None, *, resource_version: str = "", timeout_s: int = 30
    ) -> Iterator[Iterator[WatchEvent]]:
        """Open a watch; the lines end when the API server ends them, after timeout_s."""
        params = {"watch": "true", "timeoutSeconds": str(timeout_s), "resourceVersion": resource_version}
        timeout = httpx.Timeout(60.0, read=timeout_s + 10.0)
        with self._http.stream(
            "GET", self.path(key, namespace), params=params, headers=self._headers, timeout=timeout
        ) as answer:
            if answer.is_error:
                method = "WATCH"
                answer.read()
                raise ApiError(method, key, Reply(answer.status_code, _json(answer), ()))
            yield (WatchEvent(line["type"], line["object"]) for line in map(json.loads, answer.iter_lines()))

    def path(
        self, key: str, namespace: str | None = None, name: str | None = None, subresource: str | None = None
    ) -> str:
        """Return the path of a resource that is named by its plural."""
        return self._discovery.by_plural(key).path(namespace, name, subresource)


def _options(*, dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _json(answer: httpx.Response) -> JsonObject:
    try:
        content = answer.json()
    except ValueError:
        return {"message": answer.text}
    return content if isinstance(content, dict) else {"content": content}


def _warnings(answer: httpx.Response) -> tuple[str, ...]:
    found = (WARNING.match(value) for value in answer.headers.get_list("warning"))
    return tuple(re.sub(r"\\(.)", r"\1", match[1]) for match in found if match)
