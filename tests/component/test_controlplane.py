"""The harness itself: pods are bound to stand-in nodes, the audit log tells, the proxies break what they should."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.nodes import TAINT
from tests.controlplane.polling import NotInTimeError, never, until
from tests.controlplane.recording import Recorder

pytestmark = pytest.mark.controlplane

POLICIES = "mutatingadmissionpolicies.admissionregistration.k8s.io"


def pod(name: str, *, gpus: int = 1, tolerate: str = "", annotations: dict[str, str] | None = None) -> JsonObject:
    tolerations = [{"key": TAINT, "value": tolerate, "effect": "NoSchedule"}] if tolerate else []
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "tolerations": tolerations,
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "example.invalid/main", "resources": resources}],
        },
    }


def phase(cp: ControlPlane, namespace: str, name: str) -> str:
    found = cp.admin.find("pods", name, namespace)
    return str(found["status"]["phase"]) if found else "gone"


def reaches(cp: ControlPlane, namespace: str, name: str, wanted: str, deadline_s: float = 10.0) -> None:
    until(lambda: phase(cp, namespace, name) == wanted, deadline_s, f"pod {name} {wanted}")


@pytest.fixture
def gpu_node(control_plane: ControlPlane) -> Iterator[str]:
    name = control_plane.nodes.add_gpu_node("gpu-a", "h100", 8)
    yield name
    control_plane.nodes.remove(name)


def test_pod_with_the_toleration_runs_on_the_gpu_node(
    control_plane: ControlPlane, namespace: str, gpu_node: str
) -> None:
    with Recorder(control_plane.admin, "pods", namespace) as recorder:
        control_plane.admin.create(pod("with", tolerate="h100"), namespace=namespace)
        control_plane.admin.create(pod("without"), namespace=namespace)
        reaches(control_plane, namespace, "with", "Running")
        never(lambda: phase(control_plane, namespace, "without") != "Pending", 0.5, "pod without toleration")
        stored = control_plane.admin.get("pods", "with", namespace)
    assert stored["spec"]["nodeName"] == gpu_node
    conditions = {entry["type"]: entry["status"] for entry in stored["status"]["conditions"]}
    assert conditions["PodScheduled"] == "True"
    assert conditions["Ready"] == "True"
    assert recorder.changes("with")[0].type == "ADDED"
    assert recorder.changes("with")[-1].object["status"]["phase"] == "Running"

    writes = control_plane.audit.writes("pods", "with", namespace)
    assert [(write.verb, write.subresource) for write in writes] == [
        ("create", ""),
        ("create", "binding"),
        ("patch", "status"),
    ]
    assert [write.by for write in writes] == ["kubernetes-admin", "system:kube-scheduler", "kwok"]
    assert writes[0].request is not None
    assert writes[0].request["spec"]["tolerations"][0]["key"] == TAINT


def test_pods_end_as_they_are_told(control_plane: ControlPlane, namespace: str, gpu_node: str) -> None:
    cp = control_plane
    for name, notes in (
        ("done", {}),
        ("broken", {}),
        ("timed", {"test.gpures.dev/complete-after": "300ms"}),
        ("deleted", {}),
    ):
        cp.admin.create(pod(name, tolerate="h100", annotations=notes), namespace=namespace)
    for name in ("done", "broken", "deleted"):
        reaches(cp, namespace, name, "Running")
    cp.nodes.complete_pod(namespace, "done")
    cp.nodes.fail_pod(namespace, "broken")
    cp.admin.delete("pods", "deleted", namespace)
    for name, wanted in (("done", "Succeeded"), ("broken", "Failed"), ("timed", "Succeeded"), ("deleted", "gone")):
        reaches(cp, namespace, name, wanted)


def test_nodes_fail_and_recover(control_plane: ControlPlane, namespace: str, gpu_node: str) -> None:
    control_plane.nodes.set_ready(gpu_node, ready=False)
    control_plane.admin.create(pod("waits", tolerate="h100"), namespace=namespace)
    never(lambda: phase(control_plane, namespace, "waits") != "Pending", 0.5, "pod on a node that is not ready")
    control_plane.nodes.set_ready(gpu_node, ready=True)
    reaches(control_plane, namespace, "waits", "Running")


def test_deployment_is_served_by_the_real_controllers(
    control_plane: ControlPlane, namespace: str, gpu_node: str
) -> None:
    template = pod("", tolerate="h100")
    template["metadata"] = {"labels": {"app": "web"}}
    template["spec"].pop("terminationGracePeriodSeconds")
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    manifest = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    control_plane.admin.create(manifest, namespace=namespace)
    until(
        lambda: control_plane.admin.get("deployments.apps", "web", namespace)["status"].get("readyReplicas") == 2,
        20.0,
        "two ready replicas",
    )


def test_identities_are_separate(control_plane: ControlPlane, namespace: str) -> None:
    account = f"system:serviceaccount:{namespace}:default"
    for token in (True, False):
        kubeconfig = control_plane.kubeconfig_for_service_account(namespace, "default", token=token)
        with ApiClient.from_kubeconfig(kubeconfig) as client, pytest.raises(ApiError, match=account) as refused:
            client.items("pods", namespace)
        assert refused.value.code == 403
    with pytest.raises(ApiError, match='User "alice"'):
        control_plane.admin.as_user("alice").items("pods", namespace)
    as_group = control_plane.kubeconfig_as_user("bob", ["system:masters"])
    assert (
        "namespace/" in control_plane.kubectl("get", "namespace", namespace, "-o", "name", kubeconfig=as_group).stdout
    )


def test_warnings_and_dry_run_are_seen(control_plane: ControlPlane, namespace: str) -> None:
    odd = pod("odd", gpus=0)
    odd["metadata"]["annotations"] = {"container.apparmor.security.beta.kubernetes.io/main": "unconfined"}
    reply = control_plane.admin.create(odd, namespace=namespace, dry_run=True)
    assert any("deprecated" in warning for warning in reply.warnings)
    assert control_plane.admin.find("pods", "odd", namespace) is None
    assert control_plane.audit.writes("pods", "odd", namespace) == []


def test_hold_policy_api_can_be_switched_off(
    control_plane: ControlPlane, control_plane_without_hold_policy: ControlPlane
) -> None:
    control_plane.admin.items(POLICIES)
    with pytest.raises(LookupError):
        control_plane_without_hold_policy.admin.items(POLICIES)
    control_plane_without_hold_policy.admin.items("validatingadmissionpolicies.admissionregistration.k8s.io")


def test_children_die_with_a_killed_run(tmp_path: Path) -> None:
    script = (
        "import os, signal, threading; from pathlib import Path; from tests.controlplane.processes import Child\n"
        f"child = Child(['sleep', '600'], Path({str(tmp_path)!r}) / 'child.log')\n"
        "thread = threading.Thread(target=child.start); thread.start(); thread.join()\n"
        "print(child.pid, flush=True); input(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        pid = int(run.stdout.readline())
        assert alive(pid)
        run.communicate("\n", timeout=10)
    until(lambda: not alive(pid), 5.0, "end of the orphan")


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def test_until_says_what_it_missed() -> None:
    with pytest.raises(NotInTimeError, match=r"the moon: not within 0\.01 s \(last seen: 0\)"):
        until(lambda: 0, 0.01, "the moon")
