"""Attacks by way of an owner: the pods are created by a controller, and the attacker reads its Events."""

from __future__ import annotations

from typing import Any

from common.domain import keys
from tests.component.builders import DEADLINE_S, container, toleration
from tests.component.fence_attacks_created import EXACT, GUARD_DOWN
from tests.component.fence_scene import Attack, Scene, Seen
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until


def _owned(scene: Scene, kind: str, **spec: Any) -> Any:
    """A workload whose pods carry the reserved toleration; its owner reads what became of them in an Event."""
    name = f"forger-{kind.lower()}"
    template = {
        "metadata": {"labels": {"app": name, keys.CLASS_LABEL: scene.gpu_class}},
        "spec": {"containers": [container(gpu="1")], "tolerations": [toleration(scene.gpu_class)], **spec},
    }
    content: JsonObject = {"template": template} | (
        {} if kind == "Job" else {"selector": {"matchLabels": {"app": name}}}
    )
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    api = "batch/v1" if kind == "Job" else "apps/v1"
    scene.tenant.create(
        {"apiVersion": api, "kind": kind, "metadata": {"name": name}, "spec": content}, namespace=scene.namespace
    )
    plural = f"{kind.lower()}s.{api.partition('/')[0]}"
    try:

        def told() -> str:
            events = scene.tenant.items("events", scene.namespace, fields="reason=FailedCreate")
            return next((e["message"] for e in events if e["involvedObject"]["name"].startswith(name)), "")

        raise Seen(until(told, DEADLINE_S, f"an Event about {name}"))
    finally:
        scene.admin.delete(plural, name, scene.namespace)
        for event in scene.admin.items("events", scene.namespace, fields="reason=FailedCreate"):
            scene.admin.delete("events", event["metadata"]["name"], scene.namespace)


OWNED = [
    Attack(
        "T5",
        "sends a Job whose pods carry the toleration",
        "create jobs",
        lambda s: _owned(s, "Job"),
        EXACT,
        reads_down=GUARD_DOWN,
    ),
    Attack(
        "T6",
        "sends a DaemonSet whose pods carry the toleration and ask for GPUs",
        "create daemonsets",
        lambda s: _owned(s, "DaemonSet"),
        EXACT,
        reads_down=GUARD_DOWN,
    ),
]
