"""Counts what was written for some pods, out of the audit log; pure but for the types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

from tests.controlplane.audit import WRITES, AuditEvent
from tests.controlplane.discovery import JsonObject

ACCOUNT = "system:serviceaccount:gpures-system:gpures-"
WEBHOOK, RECONCILER = f"{ACCOUNT}webhook", f"{ACCOUNT}reconciler"


class Write(StrEnum):
    CREATE = "create of the pod"
    OPEN = "opening of the pod"
    CLAIM = "claims"
    COLUMNS = "columns and phases"
    CONDITION = "conditions of the pod"
    EVENT = "Events"


OURS = {
    ("pods", ""): Write.OPEN,
    ("pods", "status"): Write.CONDITION,
    ("gpureservations", "status"): Write.COLUMNS,
    ("gpuclasses", "status"): Write.COLUMNS,
    ("events", ""): Write.EVENT,
}
COUNTED = (Write.CREATE, Write.OPEN, Write.CLAIM, Write.COLUMNS)
"""Events and conditions, at most one each per change of reason, are counted apart (P20)."""


def is_claim(event: AuditEvent) -> bool:
    """A patch that adds claims; taking some away is something else."""
    return event.resource == "gpureservations" and any(
        change.get("op") == "add" and str(change.get("path", "")).startswith("/status/claims/")
        for change in operations(event)
    )


def operations(event: AuditEvent) -> list[JsonObject]:
    """Of a JSON patch; none for any other body."""
    body: object = event.request
    return [change for change in body if isinstance(change, dict)] if isinstance(body, list) else []


def kind(event: AuditEvent) -> Write | None:
    """None for what is not about a pod's way in: the lease, bindings, what kubelets write."""
    if event.resource == "pods" and event.verb == "create" and not event.subresource:
        return Write.CREATE
    if event.user not in (WEBHOOK, RECONCILER):
        return None
    if event.resource == "gpureservations" and is_claim(event):
        return Write.CLAIM
    return OURS.get((event.resource, event.subresource))


def tally(events: Iterable[AuditEvent], namespace: str, since: datetime) -> Counter[Write]:
    """Every stored write for pods of a namespace; the class is everybody's, so the time alone tells."""
    counted: Counter[Write] = Counter()
    for event in events:
        if event.stored and event.received >= since and event.namespace in (namespace, ""):
            found = kind(event)
            if found is not None:
                counted[found] += 1
    return counted


def let_in(events: Iterable[AuditEvent], namespace: str) -> tuple[int, int]:
    """How many creates of pods were answered with a pod that is let in, and how many there were."""
    created = [
        event.response or {}
        for event in events
        if event.stored
        and event.resource == "pods"
        and event.verb == "create"
        and not event.subresource
        and event.namespace == namespace
    ]
    return sum(1 for pod in created if not pod["spec"].get("schedulingGates")), len(created)


def claim_patches(events: Iterable[AuditEvent], namespace: str) -> int:
    """Of the webhooks, refused ones too."""
    return sum(
        1
        for event in events
        if event.stage == "ResponseComplete"
        and event.verb in WRITES
        and event.user == WEBHOOK
        and event.namespace == namespace
        and is_claim(event)
    )
