"""Pods that must be stored byte for byte as if nothing were installed, while there is no class."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.support.manifests import a_pod, container, sent

NAMESPACE = "before-and-after"
TOLERATION = {"key": "gpu-class-reservation", "value": "h100", "effect": "NoSchedule"}
OTHER_GATE = {"name": "example.com/other"}
MASTERS = ("system:masters", "system:authenticated")
"""Nobody else may create a GPU pod that names its node, class or no class (docs/reference/fence.md)."""


def pods() -> Sequence[JsonObject]:
    """Ordinary ones, and such as would be held, stripped or refused if their class existed."""

    def pod(name: str, **fields: object) -> JsonObject:
        spec = {"automountServiceAccountToken": False} | dict(fields.pop("spec", {}))  # type: ignore[call-overload]
        return sent(a_pod(name, NAMESPACE, spec=spec, **fields))  # type: ignore[arg-type]

    return [
        pod("plain", gpus=0, gpu_class=""),
        pod("gpu-without-label", gpu_class=""),
        pod("gpu-with-label", gpus=2),
        pod("label-without-gpu", gpus=0),
        pod("toleration", spec={"tolerations": [TOLERATION]}),
        pod("wildcard", spec={"tolerations": [{"operator": "Exists"}]}),
        pod("other-gate", spec={"schedulingGates": [OTHER_GATE]}),
        pod("annotated", annotations={"galends/booking-reference": "mine", "example.com/note": "x"}),
        pod("use-reservation", annotations={"gpures.dev/use-reservation": "sprint"}),
        pod("init", spec={"initContainers": [container(1, "init")]}),
        pod("named-node", spec={"nodeName": "some-node"}),
    ]


def name_of(pod: JsonObject) -> str:
    return str(pod["metadata"]["name"])


def store_all(cluster: ControlPlane) -> Mapping[str, tuple[str, tuple[str, ...]]]:
    """By name: the object as it is stored, without what differs from one create to the next, and the warnings."""
    return {name_of(pod): _stored(cluster, pod) for pod in pods()}


def _stored(cluster: ControlPlane, pod: JsonObject) -> tuple[str, tuple[str, ...]]:
    reply = cluster.admin.as_user("somebody", MASTERS).create(pod)
    cluster.admin.delete("pods", name_of(pod), NAMESPACE, grace_s=0)
    meta = reply.object["metadata"]
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        assert meta.pop(field)
    for entry in meta.get("managedFields", []):
        assert entry.pop("time")
    for condition in reply.object["status"].get("conditions", []):
        assert condition.pop("lastTransitionTime")
    return json.dumps(reply.object), reply.warnings
