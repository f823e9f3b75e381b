"""Units of a pod against the verdicts of the real scheduler.

For each shape there is a node with exactly so many units and one with a unit less; both have room for nobody else. The
scheduler must take the pod on the first and refuse it on the second, and so must our counting.
"""

import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from common.adapters.wire import decode_pod
from common.domain.gpu_class import Unit
from common.domain.units import pod_units
from tests.component.pod_shapes import OVERHEADS, SHAPES, Shape
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

DEADLINE_S = 60.0
SHAPE, FITS = "test.gpures.dev/shape", "test.gpures.dev/fits"


@dataclass(frozen=True)
class Verdict:
    """What the scheduler said of one pod."""

    bound: bool
    refused: bool
    pod: JsonObject


def a_node(shape: Shape, *, fits: bool) -> JsonObject:
    count = shape.units if fits else shape.units - 1
    unit = {name: str(quantity * count) for name, quantity in shape.unit.resources.items()}
    resources = {"cpu": "64", "memory": "512Gi", "pods": "10"} | unit
    name = node_name(shape, fits=fits)
    labels = {"kubernetes.io/hostname": name, SHAPE: shape.name, FITS: str(fits)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"capacity": resources, "allocatable": resources},
    }


def a_pod(shape: Shape, *, fits: bool) -> JsonObject:
    spec = {
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {SHAPE: shape.name, FITS: str(fits)},
        **shape.spec(),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": node_name(shape, fits=fits)}, "spec": spec}


def node_name(shape: Shape, *, fits: bool) -> str:
    return f"{shape.name}-{'fits' if fits else 'small'}"


def in_parallel(call: Any, items: Sequence[Any]) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(call, items))


def ready(node: JsonObject) -> bool:
    conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and not node["spec"].get("taints")


def verdict(pod: JsonObject) -> Verdict:
    conditions = {entry["type"]: entry for entry in pod["status"].get("conditions", [])}
    message = str(conditions.get("PodScheduled", {}).get("message", ""))
    return Verdict(bool(pod["spec"].get("nodeName")), "Insufficient" in message, pod)


@pytest.fixture(scope="module")
def untouched() -> Iterator[ControlPlane]:
    """A cluster without anything of ours: what is asked here is the scheduler's own opinion."""
    with ControlPlane() as control_plane:
        yield control_plane


@pytest.fixture(scope="module")
def verdicts(untouched: ControlPlane) -> Iterator[dict[str, Verdict]]:
    """Every pod on every node at once; the nodes are taken away afterwards."""
    admin, namespace = untouched.admin, untouched.unique_namespace("units")
    for name, overhead in OVERHEADS.items():
        runtime = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": name}
        admin.create(runtime | {"overhead": {"podFixed": overhead}})
    cases = [(shape, fits) for shape in SHAPES for fits in (True, False)]
    in_parallel(lambda case: admin.create(a_node(case[0], fits=case[1])), cases)

    def told() -> dict[str, Verdict] | None:
        pods = {pod["metadata"]["name"]: verdict(pod) for pod in admin.items("pods", namespace)}
        done = all(found.bound or (found.refused and name.endswith("-small")) for name, found in pods.items())
        return pods if len(pods) == len(cases) and done else None

    try:
        until(lambda: all(ready(node) for node in admin.items("nodes", labels=SHAPE)), DEADLINE_S, "nodes ready")
        in_parallel(lambda case: admin.create(a_pod(case[0], fits=case[1]), namespace=namespace), cases)
        yield until(told, DEADLINE_S, "a verdict on every pod")
    finally:
        admin.delete("namespaces", namespace)
        in_parallel(lambda case: untouched.nodes.remove(node_name(case[0], fits=case[1])), cases)
        for name in OVERHEADS:
            admin.delete("runtimeclasses.node.k8s.io", name)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_units_are_what_the_scheduler_counts(verdicts: dict[str, Verdict], shape: Shape) -> None:
    fits, small = (verdicts[node_name(shape, fits=each)] for each in (True, False))
    assert fits.bound
    assert not small.bound
    assert small.refused
    assert counted(fits.pod, shape.unit) == counted(small.pod, shape.unit) == shape.units


def counted(stored: JsonObject, unit: Unit) -> int:
    return pod_units(decode_pod(json.dumps(stored).encode()).requests, unit)
