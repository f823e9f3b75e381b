"""Writes as the watches showed them: every version of an object is one, and of the right kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.controlplane.recording import Change
from tests.demo.evidence import Trail, trails
from tests.kind.watched import written
from tests.support.manifests import a_pod

GATED: dict[str, Any] = {"schedulingGates": [{"name": "gpures.dev/hold"}]}


def seen(*versions: Change) -> Trail:
    def history(kind: str) -> Sequence[Change]:
        return versions if kind == "pods" else ()

    return trails(written(history, []))["alice/trainer-0"]


def version(at: float, kind: str = "MODIFIED", **fields: Any) -> Change:
    return Change(kind, a_pod(version=str(at), **fields), at)


def test_pod_that_is_let_in_at_create_is_bound_by_the_next_write() -> None:
    trail = seen(version(1, "ADDED"), version(2, spec={"nodeName": "n"}), version(3, spec={"nodeName": "n"}))
    assert trail.let_in_at_create is False
    assert trail.binding is not None
    assert trail.before_binding() == ()


def test_a_write_to_the_pod_before_its_binding_is_found() -> None:
    trail = seen(
        version(1, "ADDED", spec=GATED), version(2, annotations={"x": "y"}), version(3, spec={"nodeName": "n"})
    )
    assert [write.subresource for write in trail.before_binding()] == [""]
    assert trail.opening is trail.writes[1]


def test_a_condition_is_a_write_to_the_status() -> None:
    held = {"conditions": [{"type": "gpures.dev/Held", "status": "True"}]}
    trail = seen(version(1, "ADDED", spec=GATED), version(2, spec=GATED, status=held))
    assert [write.subresource for write in trail.writes] == ["", "status"]


def test_a_refused_pod_is_asked_for_and_not_stored() -> None:
    (event,) = written(lambda _: (), [("carol/intruder-0", 403)])
    assert (event.verb, event.namespace, event.name, event.stored) == ("create", "carol", "intruder-0", False)
