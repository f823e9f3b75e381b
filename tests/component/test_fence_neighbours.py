"""What others run on the same cluster passes the fence: their real shapes, under their own accounts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.component.builders import DEADLINE_S, GATE, GPU, class_in_force, container, gates, pod
from tests.component.fence_scene import lists
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.install import install
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

NAME = "neighbours-h100"
KUEUE = "system:serviceaccount:kueue-system:kueue-controller-manager"
VOLCANO = "system:serviceaccount:volcano-system:volcano-scheduler"
OPERATOR = "gpu-operator"
SOME_POD: dict[str, Any] = {"containers": [container(cpu="10m")]}
ALL = {"operator": "Exists"}


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> Iterator[ApiClient]:
    """Nobody breaks glass here: without system:masters in the list the fence judges everybody."""
    install(control_plane.admin)
    node = f"{NAME}-node"
    control_plane.nodes.add_gpu_node(node, NAME, 8)
    with (
        class_in_force(control_plane.admin, NAME),
        lists(control_plane.admin, lambda: not breaks_glass(control_plane.admin), break_glass_groups="nobody"),
    ):
        yield control_plane.admin
    control_plane.nodes.remove(node)


def breaks_glass(admin: ApiClient) -> bool:
    return accepted(admin, pod("probe", nodeName="nowhere"))


def accepted(client: ApiClient, manifest: JsonObject, namespace: str = "default") -> bool:
    try:
        client.create(manifest, namespace=namespace, dry_run=True)
    except ApiError as error:
        if "gpures-fence" in error.message:
            return False
        raise
    return True


def as_account(admin: ApiClient, account: str) -> ApiClient:
    """A neighbour's account, with every right: only the fence stands in its way."""
    return admin.as_user(account, ["system:serviceaccounts", "system:masters", "system:authenticated"])


def bind(client: ApiClient, name: str, namespace: str, node: str) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    client.request("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body=body)


# Kueue


def test_kueue_opens_its_own_gate_and_leaves_ours(admin: ApiClient, namespace: str) -> None:
    gate = "kueue.x-k8s.io/admission"
    labels = {"gpu-class": NAME, "kueue.x-k8s.io/queue-name": "team", "kueue.x-k8s.io/managed": "true"}
    admin.create(pod("job-0", labels=labels, schedulingGates=[{"name": gate}]), namespace=namespace)
    kueue = as_account(admin, KUEUE)
    kueue.patch("pods", "job-0", {"metadata": {"finalizers": ["kueue.x-k8s.io/managed"]}}, namespace)
    admitted: JsonObject = {
        "metadata": {"annotations": {"kueue.x-k8s.io/workload": "job-0"}, "labels": {"kueue.x-k8s.io/podset": "main"}},
        "spec": {
            "schedulingGates": [{"name": gate, "$patch": "delete"}],
            "nodeSelector": {"cloud.example/flavor": "h100"},
            "tolerations": [{"key": "cloud.example/spot", "operator": "Exists"}],
        },
    }
    stored = kueue.patch("pods", "job-0", admitted, namespace, kind="strategic").object
    assert gates(stored) == [GATE]
    kueue.patch("pods", "job-0", {"metadata": {"finalizers": None}}, namespace)


def test_kueue_says_why_it_stops_a_pod(admin: ApiClient, namespace: str) -> None:
    admin.create(pod("job-1", labels={"gpu-class": NAME}), namespace=namespace)
    condition = {"type": "TerminationTarget", "status": "True", "reason": "StoppedByKueue", "message": "preempted"}
    body = {"status": {"conditions": [condition]}}
    stored = (
        as_account(admin, KUEUE).patch("pods", "job-1", body, namespace, kind="strategic", subresource="status").object
    )
    assert "TerminationTarget" in [entry["type"] for entry in stored["status"]["conditions"]]


# Volcano


def test_volcano_binds_once_it_is_listed(admin: ApiClient, namespace: str) -> None:
    meta = {"scheduling.k8s.io/group-name": "podgroup-1", "volcano.sh/task-spec": "worker"}
    admin.create(pod("task", annotations=meta, schedulerName="volcano", **SOME_POD), namespace=namespace)
    volcano = as_account(admin, VOLCANO)
    with pytest.raises(ApiError, match=f"{VOLCANO} may not bind pods to nodes.*gpures.dev/fence-allowed-binders"):
        bind(volcano, "task", namespace, f"{NAME}-node")

    def binds() -> bool:
        probe = pod(schedulerName="volcano", **SOME_POD) | {"metadata": {"generateName": "probe-"}}
        name = admin.create(probe, namespace=namespace).object["metadata"]["name"]
        try:
            bind(volcano, name, namespace, f"{NAME}-node")
        except ApiError as error:
            if "gpures-fence" not in error.message:
                raise
            return False
        return True

    # As people type it.
    with lists(admin, binds, allowed_binders=f" system:kube-scheduler ,, {VOLCANO},"):
        bind(volcano, "task", namespace, f"{NAME}-node")
        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "3/4 tasks"}
        body = {"status": {"conditions": [condition]}}
        volcano.patch("pods", "task", body, namespace, kind="strategic", subresource="status")


# GPU operator and other node agents


AGENTS: list[tuple[str, JsonObject]] = [
    (
        "nvidia-device-plugin",
        {
            "priorityClassName": "system-node-critical",
            "tolerations": [ALL, {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
            "containers": [
                container()
                | {
                    "env": [{"name": "NVIDIA_MIG_MONITOR_DEVICES", "value": "all"}],
                    "securityContext": {"privileged": True},
                    "volumeMounts": [{"name": "plugins", "mountPath": "/var/lib/kubelet/device-plugins"}],
                }
            ],
            "volumes": [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
        },
    ),
    (
        "dcgm-exporter",
        {
            "tolerations": [{"key": "gpu-class-reservation", "operator": "Exists"}],
            "hostPID": True,
            "containers": [container(cpu="100m", memory="128Mi")],
        },
    ),
    (
        "node-exporter",
        {
            "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
            "hostNetwork": True,
            "containers": [container(cpu="100m")],
            "volumes": [{"name": "root", "hostPath": {"path": "/"}}, {"name": "dev", "hostPath": {"path": "/dev"}}],
        },
    ),
    ("kubectl-debug-node", {"nodeName": f"{NAME}-node", "tolerations": [ALL], "hostPID": True}),
]


@pytest.mark.parametrize("spec", [spec for _, spec in AGENTS], ids=[name for name, _ in AGENTS])
def test_a_node_agent_starts(admin: ApiClient, namespace: str, spec: JsonObject) -> None:
    assert accepted(
        as_account(admin, "ops@example.com"), pod("agent", **{"containers": [container()], **spec}), namespace
    )


def test_the_pods_of_a_device_plugin_daemon_set_run_on_reserved_nodes(admin: ApiClient, namespace: str) -> None:
    labels = {"app": "nvidia-device-plugin"}
    spec: JsonObject = {k: v for k, v in AGENTS[0][1].items() if k != "priorityClassName"}
    content = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}}
    body = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "plugin"}, "spec": content}
    admin.create(body, namespace=namespace)

    def running() -> bool:
        pods = admin.items("pods", namespace, labels="app=nvidia-device-plugin")
        return any(p["spec"].get("nodeName") == f"{NAME}-node" and p["status"]["phase"] == "Running" for p in pods)

    until(running, DEADLINE_S, "the device plugin runs on the reserved node")


@pytest.fixture(scope="module")
def operator(control_plane: ControlPlane, admin: ApiClient) -> str:
    return OPERATOR if admin.find("namespaces", OPERATOR) else control_plane.create_namespace(OPERATOR)


def _validator(name: str, **fields: Any) -> JsonObject:
    """What nvidia-operator-validator creates to try the node that it runs on."""
    return pod(name, nodeName=f"{NAME}-node", restartPolicy="OnFailure", **fields)


VALIDATORS = [
    _validator(
        "nvidia-cuda-validator",
        containers=[container() | {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}],
        volumes=[{"name": "device", "hostPath": {"path": "/dev/nvidiactl"}}],
    ),
    _validator("nvidia-device-plugin-validator", containers=[container(gpu="1")]),
]


@pytest.mark.parametrize("manifest", VALIDATORS, ids=lambda manifest: manifest["metadata"]["name"])
def test_the_operator_tries_its_nodes_in_its_own_namespace_only(
    admin: ApiClient, operator: str, namespace: str, manifest: JsonObject
) -> None:
    account = as_account(admin, f"system:serviceaccount:{OPERATOR}:nvidia-operator-validator")
    assert accepted(account, manifest, operator)
    assert not accepted(account, manifest, namespace)


# The cluster itself


def test_a_node_stores_pictures_of_its_static_pods(admin: ApiClient, namespace: str) -> None:
    node = admin.as_user(f"system:node:{NAME}-node", ["system:nodes", "system:masters"])
    mirror = pod("static", annotations={"kubernetes.io/config.mirror": "hash"}, nodeName=f"{NAME}-node")
    assert accepted(node, mirror, namespace)


def test_kwok_runs_and_ends_pods_without_breaking_glass(
    control_plane: ControlPlane, admin: ApiClient, namespace: str
) -> None:
    agent = pod("agent", containers=[container()], tolerations=[ALL], terminationGracePeriodSeconds=1)
    admin.create(agent, namespace=namespace)
    until(lambda: admin.get("pods", "agent", namespace)["status"]["phase"] == "Running", DEADLINE_S, "the pod runs")
    admin.delete("pods", "agent", namespace)
    until(lambda: admin.find("pods", "agent", namespace) is None, DEADLINE_S, "the pod is gone")


def test_a_namespace_full_of_held_pods_goes(control_plane: ControlPlane, admin: ApiClient) -> None:
    namespace = control_plane.unique_namespace()
    finalizers = ["team.example/tidy", "batch.kubernetes.io/job-tracking"]
    for number in range(3):
        manifest = pod(f"held-{number}", labels={"gpu-class": NAME})
        manifest["metadata"]["finalizers"] = finalizers
        admin.create(manifest, namespace=namespace)
    admin.delete("namespaces", namespace)
    until(lambda: admin.get("pods", "held-0", namespace)["metadata"].get("deletionTimestamp"), DEADLINE_S, "pods go")
    for number in range(3):
        # As their owners do, each for itself: a garbage collector and a controller of no name.
        collector = as_account(admin, "system:serviceaccount:kube-system:generic-garbage-collector")
        collector.patch("pods", f"held-{number}", {"metadata": {"finalizers": finalizers[:1]}}, namespace)
        as_account(admin, "team@example.com").patch(
            "pods", f"held-{number}", {"metadata": {"finalizers": None}}, namespace
        )
    until(lambda: admin.find("namespaces", namespace) is None, DEADLINE_S, "the namespace is gone")
