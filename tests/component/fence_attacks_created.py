"""Attacks at creation: what is sent with a pod."""

from __future__ import annotations

from typing import Any

from common.domain import keys
from tests.component.builders import container, sidecar, toleration
from tests.component.fence_scene import Attack, Scene, Verdict
from tests.controlplane.discovery import JsonObject

NODE = "a pod that asks for GPUs may not name its node (spec.nodeName)"
MIRROR = "annotation kubernetes.io/config.mirror is written by nodes only"
GUARD_DOWN = "failed calling webhook"
TOKEN = "annotation gpures.dev/claim is written by the reservation system only"
EXACT = "toleration gpu-class-reservation is added by the reservation system when a reservation opens"
EVERYTHING = "tolerates every taint"
DEVICE = "asks for no GPU, but for all of a node by the variable NVIDIA_VISIBLE_DEVICES"
PATH = "gives GPUs that nobody asked for"
CLAIMED = {keys.CLAIM: "1764582000-1-alice"}
ALL = {"operator": "Exists"}


def _node(scene: Scene, *, classed: bool = False, annotations: dict[str, str] | None = None, **spec: Any) -> Any:
    return scene.create(classed=classed, annotations=annotations, spec={"nodeName": scene.stage.nodes[0]} | spec)


def _mig() -> list[JsonObject]:
    return [{"name": "main", "image": "none", "resources": {"limits": {"nvidia.com/mig-1g.5gb": "1"}}}]


def _seeing(scene: Scene, *, beside: bool = False, init: bool = False, **variable: Any) -> Any:
    seeing = container("peek") | {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", **variable}]}
    spec: JsonObject = {"containers": [container(gpu="1"), seeing] if beside else [seeing]}
    if init:
        spec = {"containers": [container()], "initContainers": [seeing]}
    return scene.create(classed=beside, spec=spec)


def _mounting(scene: Scene, path: str) -> Any:
    volume = {"name": "device", "hostPath": {"path": path}}
    return scene.create(classed=False, spec={"containers": [container()], "volumes": [volume]})


def _of_alice(scene: Scene) -> list[JsonObject]:
    runner = scene.alice.pod("runner")["metadata"]
    return [{"apiVersion": "v1", "kind": "Pod", "name": "runner", "uid": runner["uid"], "controller": True}]


def _copied(scene: Scene) -> Any:
    """Alice's admitted pod as it stands, sent as one's own."""
    pod = scene.alice.pod("runner")
    meta = {field: dict(pod["metadata"][field]) for field in ("labels", "annotations")}
    spec = {"containers": [container(gpu="1")], "tolerations": [toleration(scene.gpu_class)]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "copy", **meta}, "spec": spec}
    return scene.tenant.create(body, namespace=scene.namespace, dry_run=True)


CREATED = [
    Attack(
        "T3",
        "sends a claim of their own invention",
        "create pods",
        lambda s: s.create(annotations=CLAIMED),
        TOKEN,
        reads_down=GUARD_DOWN,
    ),
    Attack("T3", "sends a copy of somebody's admitted pod", "create pods", _copied, TOKEN, reads_down=GUARD_DOWN),
    Attack(
        "T3",
        "names somebody's reservation",
        "create pods",
        lambda s: s.create(annotations={keys.USE_RESERVATION: "alices"}),
        "ReservationNotFound",
        Verdict.HELD,
        reads_down="Undecided",
    ),
    Attack(
        "T3",
        "sends a booking reference and a guarantee",
        "create pods",
        lambda s: s.create(annotations={keys.BOOKING_REFERENCE: "alices"}),
        "ReservationFull",
        Verdict.HELD,
        reads_down="Undecided",
    ),
    Attack(
        "T28",
        "makes the pod somebody's by an owner reference",
        "create pods",
        lambda s: s.create(ownerReferences=_of_alice(s)),
        "ReservationFull",
        Verdict.HELD,
        reads_down="Undecided",
    ),
    Attack(
        "T1",
        "sends the reserved toleration",
        "create pods",
        lambda s: s.create(spec={"tolerations": [toleration(s.gpu_class)]}),
        EXACT,
        reads_down=GUARD_DOWN,
    ),
    Attack(
        "T1",
        "sends it without naming the class",
        "create pods",
        lambda s: s.create(classed=False, spec={"tolerations": [toleration(s.gpu_class)]}),
        EXACT,
        reads_down=GUARD_DOWN,
    ),
    Attack(
        "T1",
        "tolerates every taint with a GPU in a sidecar",
        "create pods",
        lambda s: s.create(
            classed=False,
            spec={"containers": [container()], "tolerations": [ALL], "initContainers": [sidecar("gpu", gpu="1")]},
        ),
        EVERYTHING,
        reads_down=GUARD_DOWN,
    ),
    Attack(
        "T7",
        "sends a mirror pod",
        "create pods",
        lambda s: _node(s, containers=[container()], annotations={"kubernetes.io/config.mirror": "x"}),
        MIRROR,
    ),
    Attack(
        "T7",
        "sends a mirror pod of a class with a node",
        "create pods",
        lambda s: s.create(annotations={"kubernetes.io/config.mirror": "x"}, spec={"nodeName": s.stage.nodes[0]}),
        MIRROR,
    ),
    Attack("T8", "names the node of a GPU pod without a class", "create pods", _node, NODE),
    Attack(
        "T8",
        "names the node of a pod of a class",
        "create pods",
        lambda s: _node(s, classed=True),
        "spec.nodeName goes round the scheduler",
        reads_down="cannot be set until all schedulingGates have been cleared",
    ),
    Attack(
        "T8",
        "names the node, the GPU is in an init container",
        "create pods",
        lambda s: _node(s, containers=[container()], initContainers=[container("setup", gpu="1")]),
        NODE,
    ),
    Attack(
        "T8",
        "names the node with the reserved toleration, and asks for cpu",
        "create pods",
        lambda s: _node(s, containers=[container(cpu="1")], tolerations=[toleration(s.gpu_class)]),
        NODE,
    ),
    Attack(
        "T8",
        "names the node with rights on every pod of the cluster",
        "create pods",
        lambda s: s.create("wide", classed=False, spec={"nodeName": s.stage.nodes[0]}),
        NODE,
        wide=True,
    ),
    Attack("T11", "names the node, the GPU is a MIG slice", "create pods", lambda s: _node(s, containers=_mig()), NODE),
    Attack(
        "T11",
        "names the node, the GPU comes by a resource claim",
        "create pods",
        lambda s: _node(s, containers=[container()], resourceClaims=[{"name": "gpu", "resourceClaimName": "gpu"}]),
        NODE,
    ),
    Attack(
        "T11",
        "tolerates the reserved taint, the GPU is a MIG slice",
        "create pods",
        lambda s: s.create(spec={"containers": _mig(), "tolerations": [toleration(s.gpu_class)]}),
        "",
        Verdict.HARMLESS,
        reads_down=GUARD_DOWN,
    ),
    Attack(
        "T12",
        "asks for 1e0 GPUs and tolerates everything",
        "create pods",
        lambda s: s.create(gpus="1e0", classed=False, spec={"tolerations": [ALL]}),
        EVERYTHING,
        reads_down=GUARD_DOWN,
    ),
    Attack(
        "T12",
        "asks for minus eight GPUs",
        "create pods",
        lambda s: s.create(gpus="-8"),
        "must be greater than or equal to 0",
    ),
    Attack("T10", "sees all GPUs without asking for one", "create pods", lambda s: _seeing(s, value="all"), DEVICE),
    Attack("T10", "sees a GPU by number", "create pods", lambda s: _seeing(s, value="0"), DEVICE),
    Attack(
        "T10",
        "takes the variable from the pod's own annotation",
        "create pods",
        lambda s: _seeing(s, valueFrom={"fieldRef": {"fieldPath": "metadata.annotations['x']"}}),
        DEVICE,
    ),
    Attack(
        "T10", "sees all GPUs in an init container", "create pods", lambda s: _seeing(s, init=True, value="all"), DEVICE
    ),
    Attack(
        "T10",
        "sees all GPUs beside a container that asks for one",
        "create pods",
        lambda s: _seeing(s, beside=True, value="all"),
        DEVICE,
    ),
    Attack("T10", "mounts the device", "create pods", lambda s: _mounting(s, "/dev/nvidia0"), PATH),
    Attack(
        "T10", "mounts the device by a longer path", "create pods", lambda s: _mounting(s, "/dev//./nvidiactl"), PATH
    ),
    Attack(
        "T17",
        "hides the toleration behind 20,000 others",
        "create pods",
        lambda s: s.create(
            spec={
                "tolerations": [
                    *({"key": f"k{n}", "operator": "Exists"} for n in range(20_000)),
                    toleration(s.gpu_class),
                ]
            }
        ),
        EXACT,
        reads_down=GUARD_DOWN,
    ),
    Attack(
        "T17",
        "hides the variable behind 1,500 others",
        "create pods",
        lambda s: s.create(
            classed=False,
            spec={
                "containers": [
                    container()
                    | {
                        "env": [
                            *({"name": f"V{n}", "value": "x"} for n in range(1_500)),
                            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
                        ]
                    }
                ]
            },
        ),
        DEVICE,
    ),
]
