"""Installing changes nothing: without a GPUClass every pod is stored as before, to the byte."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

from tests.controlplane.audit import AuditEvent
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.controlplane.product import Product
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S
from tests.support.manifests import a_class, a_pod, container, sent

pytestmark = pytest.mark.controlplane

NAMESPACE = "before-and-after"
TOLERATION = {"key": "gpu-class-reservation", "value": "h100", "effect": "NoSchedule"}
OTHER_GATE = {"name": "example.com/other"}


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


def _name(pod: JsonObject) -> str:
    return str(pod["metadata"]["name"])


@dataclass(frozen=True)
class Installation:
    """What one cluster stored before and after it, and after that with a class."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    warnings: Sequence[str]
    writes: Sequence[AuditEvent]
    with_class: JsonObject


@pytest.fixture(scope="module")
def installation() -> Installation:
    """On a cluster of its own, on which nothing was installed before."""
    with ControlPlane() as cluster:
        cluster.create_namespace(NAMESPACE)
        before = {_name(pod): _stored(cluster, pod)[0] for pod in pods()}
        with Product(cluster, webhook_count=1):
            answers = {_name(pod): _stored(cluster, pod) for pod in pods()}
            writes = [write for write in cluster.audit.writes("pods", namespace=NAMESPACE) if "gpures" in write.by]
            cluster.admin.create(sent(a_class("h100")))
            with_class = until(lambda: _held(cluster), DEADLINE_S, "the same pod is held once its class exists")
    after = {name: text for name, (text, _) in answers.items()}
    warnings = [warning for _, given in answers.values() for warning in given]
    return Installation(before, after, warnings, writes, with_class)


@pytest.mark.parametrize("name", [_name(pod) for pod in pods()])
def test_pod_is_stored_byte_for_byte_as_before_the_installation(name: str, installation: Installation) -> None:
    assert installation.after[name] == installation.before[name]


def test_nobody_is_warned_and_no_pod_is_written_to(installation: Installation) -> None:
    assert installation.warnings == []
    assert installation.writes == []


def test_a_class_makes_the_difference(installation: Installation) -> None:
    assert reading.reason(installation.with_class) == "NoReservation"


def _held(cluster: ControlPlane) -> JsonObject | None:
    """The pod with a label and GPUs, as our webhook would have it stored now."""
    pod = next(pod for pod in pods() if _name(pod) == "gpu-with-label")
    answer = cluster.admin.create(pod, dry_run=True).object
    return answer if reading.reason(answer) not in ("", "Undecided") else None


def _stored(cluster: ControlPlane, pod: JsonObject) -> tuple[str, tuple[str, ...]]:
    """The object as it is stored, without what differs from one create to the next, and the warnings."""
    reply = cluster.admin.create(pod)
    cluster.admin.delete("pods", _name(pod), NAMESPACE, grace_s=0)
    meta = reply.object["metadata"]
    for field in ("uid", "resourceVersion", "creationTimestamp"):
        assert meta.pop(field)
    for entry in meta.get("managedFields", []):
        assert entry.pop("time")
    for condition in reply.object["status"].get("conditions", []):
        assert condition.pop("lastTransitionTime")
    return json.dumps(reply.object), reply.warnings
