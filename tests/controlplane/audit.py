"""Reads the API server's audit log: who wrote what to which object, and when."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
REFUSED = 400


@dataclass(frozen=True)
class AuditEvent:
    """One line of the log."""

    id: str
    stage: str
    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str
    name: str
    user: str
    impersonated: str
    user_agent: str
    code: int
    uri: str
    received: datetime
    completed: datetime
    request: JsonObject | None = field(repr=False)
    response: JsonObject | None = field(repr=False)

    @property
    def by(self) -> str:
        """Return the user in whose name the API server acted."""
        return self.impersonated or self.user

    @property
    def accepted(self) -> bool:
        """Say whether the request was served."""
        return 0 < self.code < REFUSED

    @property
    def dry_run(self) -> bool:
        """Say whether nothing was to be stored."""
        return "dryRun=" in self.uri

    @property
    def stored(self) -> bool:
        """Say whether this was a write that was carried out."""
        return self.verb in WRITES and self.accepted and not self.dry_run and self.stage == "ResponseComplete"

    def __str__(self) -> str:
        """Return the event as one line for messages."""
        target = "/".join(part for part in (self.resource, self.namespace, self.name, self.subresource) if part)
        return f"{self.received:%H:%M:%S.%f} {self.verb} {target} by {self.by}: {self.code}"


def parse(line: str) -> AuditEvent:
    """Read one line of the log."""
    raw = json.loads(line)
    target, response = raw.get("objectRef", {}), raw.get("responseObject")
    # With generateName only the answer knows the name.
    name = target.get("name") or ((response or {}).get("metadata") or {}).get("name", "")
    return AuditEvent(
        id=raw["auditID"],
        stage=raw["stage"],
        verb=raw["verb"],
        group=target.get("apiGroup", ""),
        resource=target.get("resource", ""),
        subresource=target.get("subresource", ""),
        namespace=target.get("namespace", ""),
        name=name,
        user=raw.get("user", {}).get("username", ""),
        impersonated=raw.get("impersonatedUser", {}).get("username", ""),
        user_agent=raw.get("userAgent", ""),
        code=raw.get("responseStatus", {}).get("code", 0),
        uri=raw.get("requestURI", ""),
        received=datetime.fromisoformat(raw["requestReceivedTimestamp"]),
        completed=datetime.fromisoformat(raw["stageTimestamp"]),
        request=raw.get("requestObject"),
        response=response,
    )


class AuditLog:
    """The log as far as it has been read. Threads may share it."""

    def __init__(self, path: Path, mark: Callable[[str], None]) -> None:
        """Take the file, and a function that makes a logged request which mentions a name."""
        self._path = path
        self._mark = mark
        self._marks = 0
        self._offset = 0
        self._events: list[AuditEvent] = []
        self._lock = threading.Lock()

    def events(self) -> Sequence[AuditEvent]:
        """Return everything that has been logged until now, oldest first."""
        with self._lock:
            if self._path.exists():
                with self._path.open("rb") as file:
                    file.seek(self._offset)
                    news = file.read()
                # The last line may be half written.
                whole = news[: news.rfind(b"\n") + 1]
                self._offset += len(whole)
                self._events += [parse(line) for line in whole.decode().splitlines() if line]
            return tuple(self._events)

    def settled(self, deadline_s: float = 10.0) -> Sequence[AuditEvent]:
        """Return everything, once what was answered before this call is in the log.

        An event is logged after its answer was sent; so that "no write" can be claimed, a marked request is made
        and waited for.
        """
        with self._lock:
            self._marks += 1
            name = f"audit-mark-{self._marks}"
        self._mark(name)
        self.wait_for(lambda event: event.name == name, deadline_s, f"audit event of {name}")
        return self.events()

    def select(
        self,
        resource: str,
        name: str | None = None,
        namespace: str | None = None,
        *,
        verbs: frozenset[str] | None = None,
        subresource: str | None = None,
        by: str | None = None,
    ) -> Sequence[AuditEvent]:
        """Return the finished requests to a resource, narrowed as asked; subresource="" means the object itself."""
        return [
            event
            for event in self.events()
            if event.stage == "ResponseComplete"
            and event.resource == resource
            and (name is None or event.name == name)
            and (namespace is None or event.namespace == namespace)
            and (verbs is None or event.verb in verbs)
            and (subresource is None or event.subresource == subresource)
            and (by is None or event.by == by)
        ]

    def writes(
        self,
        resource: str,
        name: str | None = None,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        by: str | None = None,
    ) -> Sequence[AuditEvent]:
        """Settle, then return the writes that were stored, in the order in which they were answered."""
        self.settled()
        return [
            event for event in self.select(resource, name, namespace, subresource=subresource, by=by) if event.stored
        ]

    def wait_for(self, wanted: Callable[[AuditEvent], bool], deadline_s: float, what: str) -> AuditEvent:
        """Wait for the first event that is wanted."""
        return until(lambda: next((event for event in self.events() if wanted(event)), None), deadline_s, what)
