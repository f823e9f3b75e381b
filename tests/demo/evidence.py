"""What the claims are judged on: the watch history, the audit log, and what the story did on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from tests.controlplane.audit import AuditEvent
from tests.controlplane.discovery import JsonObject
from tests.controlplane.recording import Change
from tests.demo import reading


@dataclass
class Record:
    """What the story did, for the claims to find it again; nothing in here is a proof by itself."""

    finished_then: list[tuple[str, str]] = field(default_factory=list)
    denied: str = ""
    slot_warnings: tuple[str, ...] | None = None
    typo: tuple[str, ...] = ()
    outage: tuple[datetime, datetime] | None = None
    forged: list[str] = field(default_factory=list)
    refused: list[tuple[str, int]] = field(default_factory=list)
    killed_leader: str = ""
    killed_at: float = 0.0
    killed_wall: datetime | None = None


@dataclass(frozen=True)
class Evidence:
    """The record, and what was seen while it was made."""

    record: Record
    pods: Sequence[Change] = ()
    reservations: Sequence[Change] = ()
    leases: Sequence[Change] = ()
    nodes: Sequence[Change] = ()
    events: Sequence[Change] = ()
    audit: Sequence[AuditEvent] = ()
    unproved: str = ""
    """Why nobody can say here in whose name something was written; empty where the audit log can be read."""


@dataclass(frozen=True)
class Trail:
    """The writes to one pod, its CREATE first, in the order in which they were answered."""

    key: str
    writes: tuple[AuditEvent, ...]

    @property
    def created(self) -> AuditEvent:
        return self.writes[0]

    @property
    def stored(self) -> JsonObject:
        """The pod as CREATE stored it."""
        return self.created.response or {}

    @property
    def let_in_at_create(self) -> bool:
        return reading.admitted(self.stored) and not reading.gated(self.stored)

    @property
    def held_at_create(self) -> bool:
        return reading.gated(self.stored)

    @property
    def opening(self) -> AuditEvent | None:
        """The write that took our gate out."""
        if not self.held_at_create:
            return None
        of_pod = (event for event in self.writes[1:] if event.subresource == "" and event.verb != "delete")
        return next((event for event in of_pod if event.response and not reading.gated(event.response)), None)

    @property
    def binding(self) -> AuditEvent | None:
        return next((event for event in self.writes if event.subresource == "binding"), None)

    def before_binding(self) -> tuple[AuditEvent, ...]:
        """What was written between CREATE and Binding, by the instants at which the requests came.

        By the instants of the answers a quick scheduler may come first, though what it saw was written earlier.
        """
        bound = self.binding
        others = (event for event in self.writes[1:] if event is not bound)
        return tuple(event for event in others if bound is None or event.received < bound.received)

    def done(self) -> AuditEvent | None:
        """The write of the kubelet that says that the pod ended."""
        status = (event for event in self.writes if event.subresource == "status" and event.response)
        return next((event for event in status if reading.phase(event.response or {}) == "Succeeded"), None)


def trails(audit: Sequence[AuditEvent]) -> Mapping[str, Trail]:
    """Sort the stored writes to pods by pod; only pods whose CREATE is in the log count."""
    writes: dict[str, list[AuditEvent]] = {}
    for event in audit:
        if event.resource != "pods" or not event.stored:
            continue
        key = f"{event.namespace}/{event.name}"
        if key in writes or (event.verb == "create" and not event.subresource):
            writes.setdefault(key, []).append(event)
    return {key: Trail(key, tuple(found)) for key, found in writes.items()}


def milliseconds(since: datetime, until: datetime) -> float:
    return (until - since).total_seconds() * 1000
