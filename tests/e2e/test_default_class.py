"""Pods of a namespace with a default class need no label: they are held and let in like those that name the class."""

from __future__ import annotations

from typing import Any

import pytest

from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.stage import CLASSES, DEADLINE_S, Stage

pytestmark = pytest.mark.controlplane


def test_pod_without_the_label_is_held_and_let_in_where_the_class_is_the_default(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    stage.admin.patch(CLASSES, stage.gpu_class, {"spec": {"defaultFor": {"namespaces": [alice.namespace]}}})
    plain: dict[str, Any] = {"gpu_class": ""}

    def held() -> bool:
        return reading.reason(alice.create_pod("probe", dry_run=True, **plain).object) == "NoReservation"

    until(held, DEADLINE_S, "the default is in force")
    reply = alice.create_pod("early", **plain)
    assert reading.held(reply.object)
    assert len(reply.warnings) == 1
    assert reply.warnings[0].startswith("held: NoReservation: ")
    alice.hold_open(units=2)
    alice.runs("early")
    at_once = alice.create_pod("later", **plain).object
    assert reading.let_in(at_once)
    assert reading.labels(at_once)["gpu-class"] == stage.gpu_class
