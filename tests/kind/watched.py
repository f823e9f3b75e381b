"""Where the audit log is out of reach: what was written to pods and reservations, as the watches showed it.

A watch brings every version of an object, and each is one write. It comes some milliseconds after the write was
answered, and does not say in whose name it was made.
"""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from tests.controlplane.audit import AuditEvent
from tests.controlplane.discovery import JsonObject
from tests.controlplane.recording import Change
from tests.demo.house import History, Refused
from tests.demo.proofs import RECONCILER

KINDS: Final = {"pods": "pods", "reservations": "gpureservations"}
BOOKKEEPING: Final = ("resourceVersion", "managedFields", "generation")


def written(history: History, refused: Refused) -> Sequence[AuditEvent]:
    """In the order of their coming."""
    began = datetime.now(UTC) - timedelta(seconds=time.monotonic())
    events = [event for name, kind in KINDS.items() for event in _of_kind(kind, history(name), began)]
    refusals = [_event("create", "pods", "", key, code, datetime.now(UTC), None) for key, code in refused]
    return sorted(events, key=lambda event: event.completed) + refusals


def _of_kind(kind: str, changes: Sequence[Change], began: datetime) -> Sequence[AuditEvent]:
    known: dict[str, JsonObject] = {}
    events = []
    for change in changes:
        meta = change.object["metadata"]
        before = known.get(meta["uid"])
        known[meta["uid"]] = change.object
        verb, subresource = _write(change.type, before, change.object)
        at = began + timedelta(seconds=change.at)
        events.append(_event(verb, kind, subresource, f"{meta['namespace']}/{meta['name']}", 200, at, change.object))
    return events


def _write(kind: str, before: JsonObject | None, after: JsonObject) -> tuple[str, str]:
    """Verb and subresource."""
    if kind == "DELETED":
        return "delete", ""
    if before is None:
        return "create", ""
    if after["spec"].get("nodeName") and not before["spec"].get("nodeName"):
        return "create", "binding"
    return "patch", "status" if _without_status(before) == _without_status(after) else ""


def _without_status(found: JsonObject) -> JsonObject:
    meta = {key: value for key, value in found["metadata"].items() if key not in BOOKKEEPING}
    return {"metadata": meta, "spec": found["spec"]}


def _event(
    verb: str, kind: str, subresource: str, key: str, code: int, at: datetime, response: JsonObject | None
) -> AuditEvent:
    namespace, _, name = key.partition("/")
    # Who opens gates is beyond doubt where no webhook runs; elsewhere no claim of the demo asks for it.
    return AuditEvent(
        id="",
        stage="ResponseComplete",
        verb=verb,
        group="",
        resource=kind,
        subresource=subresource,
        namespace=namespace,
        name=name,
        user=RECONCILER,
        impersonated="",
        user_agent="",
        code=code,
        uri="",
        received=at,
        completed=at,
        request=None,
        response=response,
    )
