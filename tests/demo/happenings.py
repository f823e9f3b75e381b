"""Turns two versions of an object into what happened between them, in words; pure."""

from __future__ import annotations

from collections.abc import Iterator

from tests.controlplane.discovery import JsonObject
from tests.demo import reading


def of_pod(before: JsonObject | None, after: JsonObject) -> Iterator[str]:
    """Tell what a new version of a pod means to its user."""
    yield from _entry(before, after)
    if reading.node(after) and not (before and reading.node(before)):
        yield f"placed on {reading.node(after)} by kube-scheduler"
    was, now = reading.phase(before) if before else "", reading.phase(after)
    if was != now and now == "Running":
        yield "runs"
    elif was != now and now in ("Succeeded", "Failed"):
        yield "is done, its units are free" if now == "Succeeded" else "failed"


def _entry(before: JsonObject | None, after: JsonObject) -> Iterator[str]:
    asked = f"{reading.units(after)} \N{MULTIPLICATION SIGN} {reading.gpu_class(after)}"
    reason, sentence = reading.held(after)
    if before is None and reading.admitted(after):
        yield f"let in at CREATE ({asked})"
    elif before is None and reading.gated(after):
        yield f"held ({asked}): {reason}: {sentence}"
    elif before is None:
        yield f"stored as it came ({asked})"
    elif reading.gated(before) and not reading.gated(after):
        yield "gate opened, toleration added"
    elif reading.gated(after) and reading.held(before) != (reason, sentence):
        yield f"still held: {reason}: {sentence}"


def of_reservation(before: JsonObject | None, after: JsonObject) -> Iterator[str]:
    """Tell the phases as they come; Confirming lasts some milliseconds and is left out."""
    was, now = reading.phase(before) if before else "", reading.phase(after)
    if was == now or now in ("Pending", "Confirming"):
        return
    if now == "Active" and was == "Confirmed":
        yield "Active: its window is open"
    else:
        yield f"{now}: {reading.message(after)}" if reading.message(after) else now


def of_lease(before: JsonObject | None, after: JsonObject) -> Iterator[str]:
    """Tell who leads."""
    was, now = reading.holder(before) if before else "", reading.holder(after)
    if was != now:
        yield f"{now} leads" if now else f"{was} gave up the lease"
