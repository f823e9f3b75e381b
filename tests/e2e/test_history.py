"""The auditor itself: it must find what the tests that rely on it claim never to happen."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.discovery import JsonObject
from tests.controlplane.recording import Change
from tests.e2e.history import Replay

TOKEN, OTHER = "1-1-a", "2-1-b"
GRANTED = {"start": "2026-12-01T09:00:00Z", "end": "2026-12-01T10:00:00Z", "units": 1}


def reservation(name: str = "sprint", phase: str = "Active", **status: Any) -> JsonObject:
    meta = {"name": name, "namespace": "alice", "uid": name, "resourceVersion": "1"}
    return {"kind": "GPUReservation", "metadata": meta, "spec": {}, "status": {"phase": phase, **status}}


def pod(name: str, token: str = "", node: str = "", phase: str = "Pending", *, let_in: bool = True) -> JsonObject:
    annotations = {"gpures.dev/claim": token} if token else {}
    labels = {"gpu-class": "h100"} | ({"gpures.dev/reservation": "sprint"} if let_in else {})
    gates = {} if let_in else {"schedulingGates": [{"name": "gpures.dev/hold"}]}
    box = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    spec = {"containers": [box], "nodeName": node, "tolerations": [{"key": "gpu-class-reservation"}], **gates}
    meta = {"name": name, "namespace": "alice", "uid": name, "resourceVersion": "1"}
    return {
        "kind": "Pod",
        "metadata": {**meta, "annotations": annotations, "labels": labels},
        "spec": spec,
        "status": {"phase": phase},
    }


def opened(*claims: str, name: str = "sprint") -> JsonObject:
    return reservation(name, granted=GRANTED, claims=dict.fromkeys(claims, 1))


BEGIN = [reservation(phase="Pending"), reservation(phase="Confirming"), reservation(phase="Confirmed", granted=GRANTED)]


def faults(*objects: JsonObject, gone: tuple[JsonObject, ...] = ()) -> list[str]:
    replay = Replay(capacity=1)
    for stored in [*BEGIN, *objects]:
        replay.take(Change("MODIFIED", stored, 0.0))
    for stored in gone:
        replay.take(Change("DELETED", stored, 0.0))
    return [fault.partition(": ")[2] for fault in replay.faults]


@pytest.mark.parametrize(
    ("objects", "fault"),
    [
        ([opened(TOKEN, OTHER)], "2 units claimed of 1"),
        ([opened(TOKEN), pod("one", TOKEN), opened()], f"claim {TOKEN} dropped while one lives"),
        ([opened(), pod("one", TOKEN)], f"let in on {TOKEN}, which does not stand in sprint"),
        ([opened(), pod("one")], "let in on no claim, which does not stand in sprint"),
        ([pod("one", let_in=False), pod("one", node="node", let_in=False)], "bound without having been let in"),
        ([reservation(phase="Denied")], "Confirmed became Denied"),
        ([reservation(phase="Confirming"), reservation(phase="Confirmed")], "confirmed a second time"),
        ([opened(), opened(name="rival")], "2 units promised from 2026-12-01 09:00:00+00:00 on, 1 are there"),
    ],
)
def test_auditor_finds_the_fault(objects: list[JsonObject], fault: str) -> None:
    assert any(found.startswith(fault) for found in faults(*objects))


def test_auditor_finds_pods_bound_beyond_the_promise() -> None:
    swapped = [opened(TOKEN), pod("one", TOKEN, "node"), opened(OTHER), pod("two", OTHER), pod("two", OTHER, "node")]
    assert any("pods with 2 units bound under sprint" in fault for fault in faults(*swapped))


def test_auditor_has_nothing_against_an_ordinary_life() -> None:
    life = [opened(), opened(TOKEN), pod("one", TOKEN), pod("one", TOKEN, "node")]
    end = [pod("one", TOKEN, "node", "Succeeded"), opened(), reservation(phase="Ended")]
    assert faults(*life, *end, gone=(pod("one", TOKEN),)) == []


def test_auditor_lets_claims_stand_that_are_older_than_a_smaller_promise() -> None:
    two = reservation(granted=GRANTED | {"units": 2}, claims={TOKEN: 1, OTHER: 1})
    replay = Replay(capacity=2)
    for stored in [*BEGIN, two, opened(TOKEN, OTHER)]:
        replay.take(Change("MODIFIED", stored, 0.0))
    assert replay.faults == []
