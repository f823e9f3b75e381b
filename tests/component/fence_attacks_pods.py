"""Attacks on pods that are stored already: gates, tolerations, our keys, sizes."""

from __future__ import annotations

from common.domain import keys
from tests.component.builders import container, toleration
from tests.component.fence_scene import Attack, Scene, Verdict
from tests.controlplane.discovery import JsonObject

GATE = "scheduling gate gpures.dev/hold is taken out by the reservation system"
EXACT = "toleration gpu-class-reservation is added by the reservation system when a reservation opens"
WILDCARD = "would take this GPU pod round reservations; name the taints that it needs instead"
WRITTEN = "is written by the reservation system only; leave it as it is"
CLASS = "label gpu-class is fixed when a pod is created"
CONDITION = "condition gpures.dev/Held is written by the reservation system only"
FOREVER = {keys.GUARANTEED_UNTIL: "2099-01-01T00:00:00Z"}
ALICES = {keys.CLAIM: "1764582000-1-alice"}


def _without_gate(scene: Scene) -> object:
    """The whole pod once more, without the gate."""
    pod = scene.tenant.get("pods", "waiting", scene.namespace)
    del pod["spec"]["schedulingGates"]
    return scene.tenant.replace({"apiVersion": "v1", "kind": "Pod", **pod})


def _replaced(scene: Scene) -> object:
    """What `kubectl replace -f pod.yaml` sends: a pod without anything that we wrote."""
    pod = scene.tenant.get("pods", "running", scene.namespace)
    pod["metadata"].pop("annotations")
    return scene.tenant.replace({"apiVersion": "v1", "kind": "Pod", **pod})


def _in_the_place_of_the_second(scene: Scene, added: JsonObject, who: str = "tenant") -> object:
    entry = {"op": "replace", "path": "/spec/tolerations/1", "value": added}
    return scene.patch("doubled", [entry], who, kind="json")


def _debugged(scene: Scene, **fields: object) -> object:
    debugger = {"name": "debugger", "image": "test.example/none", **fields}
    body = {"spec": {"ephemeralContainers": [debugger]}}
    return scene.patch("running", body, "wide", "ephemeralcontainers", "strategic")


def _resized(scene: Scene, pod: str, **limits: str) -> object:
    body = {"spec": {"containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}]}}
    return scene.patch(pod, body, "wide", "resize", "strategic")


def _condition(scene: Scene, entry: JsonObject) -> object:
    return scene.patch("waiting", {"status": {"conditions": [entry]}}, "wide", "status", "strategic")


HELD_FALSE = {"type": keys.HELD_CONDITION, "status": "False", "reason": "Mine"}
NOT_HELD = {"type": keys.HELD_CONDITION, "$patch": "delete"}

PODS = [
    # T2
    Attack(
        "T2",
        "takes the gate out by a JSON patch",
        "patch pods",
        lambda s: s.patch("waiting", [{"op": "remove", "path": "/spec/schedulingGates"}], kind="json"),
        GATE,
    ),
    Attack(
        "T2",
        "takes the gate out by a merge patch",
        "patch pods",
        lambda s: s.patch("waiting", {"spec": {"schedulingGates": None}}),
        GATE,
    ),
    Attack(
        "T2",
        "takes the gate out by a strategic merge",
        "patch pods",
        lambda s: s.patch(
            "waiting", {"spec": {"schedulingGates": [{"name": keys.GATE, "$patch": "delete"}]}}, kind="strategic"
        ),
        GATE,
    ),
    Attack("T2", "puts the pod again without the gate", "update pods", _without_gate, GATE),
    Attack(
        "T2",
        "takes the gate out with rights on every pod of the cluster",
        "patch pods",
        lambda s: s.patch("waiting", {"spec": {"schedulingGates": None}}, "wide"),
        GATE,
        wide=True,
    ),
    Attack(
        "T2",
        "takes the gate out through the status",
        "patch pods/status",
        lambda s: s.patch("waiting", {"spec": {"schedulingGates": None}}, "wide", "status"),
        "",
        Verdict.HELD,
        wide=True,
    ),
    # T1 on stored pods; every form of toleration is in its own table
    Attack(
        "T1",
        "adds the reserved toleration to a pod without a class",
        "patch pods",
        lambda s: s.tolerate("bare", toleration(s.gpu_class)),
        EXACT,
    ),
    Attack(
        "T1", "adds it to a held pod", "patch pods", lambda s: s.tolerate("waiting", toleration(s.gpu_class)), EXACT
    ),
    Attack(
        "T1",
        "adds a toleration of every taint to a GPU pod",
        "patch pods",
        lambda s: s.tolerate("bare", {"operator": "Exists"}),
        WILDCARD,
    ),
    Attack(
        "T1",
        "adds a toleration of every taint to a pod of a class counted in cpu",
        "patch pods",
        lambda s: s.tolerate("cpus", {"operator": "Exists"}),
        WILDCARD,
    ),
    Attack(
        "T1",
        "adds the toleration of another class to a running pod",
        "patch pods",
        lambda s: s.tolerate("running", toleration("another")),
        EXACT,
    ),
    Attack(
        "T1",
        "puts the reserved toleration in the place of one that is there twice",
        "patch pods",
        lambda s: _in_the_place_of_the_second(s, toleration(s.gpu_class)),
        EXACT,
    ),
    Attack(
        "T27",
        "puts a toleration of every taint in the place of one that is there twice, with the reconciler's token",
        "patch pods",
        lambda s: _in_the_place_of_the_second(s, {"operator": "Exists"}, "reconciler"),
        "the toleration of the pod's own class only",
    ),
    # T3
    Attack(
        "T3",
        "names somebody's booking on a running pod",
        "patch pods",
        lambda s: s.annotate("running", {keys.BOOKING_REFERENCE: "alices"}),
        WRITTEN,
    ),
    Attack("T3", "writes a guarantee without end", "patch pods", lambda s: s.annotate("running", FOREVER), WRITTEN),
    Attack("T3", "writes a claim on a held pod", "patch pods", lambda s: s.annotate("waiting", ALICES), WRITTEN),
    Attack(
        "T3",
        "changes the reason for waiting",
        "patch pods",
        lambda s: s.annotate("waiting", {keys.HELD: "Undecided: x"}),
        WRITTEN,
    ),
    Attack(
        "T3",
        "writes a guarantee through the status",
        "patch pods/status",
        lambda s: s.annotate("running", FOREVER, "wide", "status"),
        WRITTEN,
        wide=True,
    ),
    Attack(
        "T3",
        "writes a claim through the status",
        "patch pods/status",
        lambda s: s.annotate("waiting", ALICES, "wide", "status"),
        WRITTEN,
        wide=True,
    ),
    Attack(
        "T3",
        "names a reservation by label",
        "patch pods",
        lambda s: s.label("running", {keys.RESERVATION_LABEL: "alices"}),
        "label gpures.dev/reservation is written by the reservation system only",
    ),
    Attack(
        "T3",
        "names a reservation by label through the status",
        "patch pods/status",
        lambda s: s.label("running", {keys.RESERVATION_LABEL: "alices"}, "wide", "status"),
        "label gpures.dev/reservation is written by the reservation system only",
        wide=True,
    ),
    Attack(
        "T3",
        "says by condition that the pod is not held",
        "patch pods/status",
        lambda s: _condition(s, HELD_FALSE),
        CONDITION,
        wide=True,
    ),
    Attack(
        "T3", "takes the condition away", "patch pods/status", lambda s: _condition(s, NOT_HELD), CONDITION, wide=True
    ),
    # T4
    Attack(
        "T4",
        "takes the claim off a running pod, so that its units look free",
        "patch pods",
        lambda s: s.annotate("running", {keys.CLAIM: None}),
        WRITTEN,
    ),
    Attack(
        "T4",
        "replaces a running pod by its manifest, without what was written on it",
        "update pods",
        _replaced,
        WRITTEN,
    ),
    Attack(
        "T4",
        "takes the class off a running pod",
        "patch pods",
        lambda s: s.label("running", {keys.CLASS_LABEL: None}),
        CLASS,
    ),
    Attack(
        "T4",
        "changes the class of a held pod",
        "patch pods",
        lambda s: s.label("waiting", {keys.CLASS_LABEL: "another"}),
        CLASS,
    ),
    Attack(
        "T4",
        "gives a class to a pod without one",
        "patch pods",
        lambda s: s.label("bare", {keys.CLASS_LABEL: s.gpu_class}),
        CLASS,
    ),
    Attack(
        "T4",
        "takes the class off a running pod through the status",
        "patch pods/status",
        lambda s: s.label("running", {keys.CLASS_LABEL: None}, "wide", "status"),
        CLASS,
        wide=True,
    ),
    # T7, T8: what the API server itself refuses on stored pods
    Attack(
        "T7",
        "makes a stored pod a mirror pod",
        "patch pods",
        lambda s: s.annotate("bare", {"kubernetes.io/config.mirror": "x"}),
        "mirror",
    ),
    Attack(
        "T8",
        "names the node of a stored pod",
        "patch pods",
        lambda s: s.patch("bare", {"spec": {"nodeName": s.stage.nodes[0]}}),
        "pod updates may not change fields",
    ),
    # T12
    Attack(
        "T12",
        "asks for more GPUs in place",
        "patch pods/resize",
        lambda s: _resized(s, "running", **{"nvidia.com/gpu": "8"}),
        "only cpu and memory resources are mutable",
        wide=True,
    ),
    Attack(
        "T12",
        "grows a pod of a class counted in cpu in place",
        "patch pods/resize",
        lambda s: _resized(s, "cpus", cpu="8"),
        "would outgrow its reservation",
        wide=True,
    ),
    Attack(
        "T12",
        "grows a pod of a class counted in cpu that asks for none of a device",
        "patch pods/resize",
        lambda s: _resized(s, "coy", cpu="8"),
        "would outgrow its reservation",
        wide=True,
    ),
    # T10, T13: debug containers
    Attack(
        "T13",
        "asks for a GPU in a debug container",
        "patch pods/ephemeralcontainers",
        lambda s: _debugged(s, resources=container(gpu="1")["resources"]),
        "resources",
        wide=True,
    ),
    Attack(
        "T10",
        "sees all GPUs in a debug container",
        "patch pods/ephemeralcontainers",
        lambda s: _debugged(s, env=[{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]),
        "container debugger asks for no GPU, but for all of a node",
        wide=True,
    ),
]
