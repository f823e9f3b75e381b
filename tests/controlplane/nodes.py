"""Stand-in nodes: GPUs in their status, the class's taint, and a switch for their health."""

from __future__ import annotations

from tests.controlplane.client import ApiClient
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until

TAINT = "gpu-class-reservation"
GPU = "nvidia.com/gpu"
NOT_READY = "test.gpures.dev/not-ready"
COMPLETE = "test.gpures.dev/complete"
FAIL = "test.gpures.dev/fail"
DEADLINE_S = 30.0


class Nodes:
    """The nodes of one control plane, and what their kubelets are told to do with pods."""

    def __init__(self, admin: ApiClient) -> None:
        """Take an identity that may do everything."""
        self._admin = admin

    def add_gpu_node(
        self,
        name: str,
        gpu_class: str,
        gpus: int,
        *,
        labels: dict[str, str] | None = None,
        taint: bool = True,
        ready: bool = True,
    ) -> str:
        """Add a node of a class, with so many units of nvidia.com/gpu."""
        taints = [{"key": TAINT, "value": gpu_class, "effect": "NoSchedule"}] if taint else []
        return self._add(name, {"gpu-class": gpu_class} | (labels or {}), taints, {GPU: str(gpus)}, ready=ready)

    def add_cpu_node(self, name: str, *, labels: dict[str, str] | None = None, ready: bool = True) -> str:
        """Add a node without GPUs and without a taint."""
        return self._add(name, labels or {}, [], {}, ready=ready)

    def remove(self, name: str) -> None:
        """Delete a node; its pods go when the garbage collector finds them."""
        self._admin.delete("nodes", name)

    def remove_all(self) -> None:
        """Delete every node."""
        for node in self._admin.items("nodes"):
            self.remove(node["metadata"]["name"])

    def set_ready(self, name: str, *, ready: bool) -> None:
        """Let a node fail or recover, and wait until its condition and the taint that follows say so."""
        annotation = None if ready else "true"
        self._admin.patch("nodes", name, {"metadata": {"annotations": {NOT_READY: annotation}}})
        until(lambda: self._is(name, ready=ready), DEADLINE_S, f"node {name} {'ready' if ready else 'not ready'}")

    def set_gpus(self, name: str, gpus: int) -> None:
        """Change how many GPUs a node has, as a broken one does."""
        amount = {GPU: str(gpus)}
        self._admin.patch("nodes", name, {"status": {"capacity": amount, "allocatable": amount}}, subresource="status")

    def complete_pod(self, namespace: str, name: str) -> None:
        """Let a running pod end well."""
        self._admin.patch("pods", name, {"metadata": {"annotations": {COMPLETE: "true"}}}, namespace)

    def fail_pod(self, namespace: str, name: str) -> None:
        """Let a running pod end badly."""
        self._admin.patch("pods", name, {"metadata": {"annotations": {FAIL: "true"}}}, namespace)

    def _add(
        self, name: str, labels: dict[str, str], taints: list[dict[str, str]], extra: dict[str, str], *, ready: bool
    ) -> str:
        resources = {"cpu": "64", "memory": "512Gi", "pods": "500", "ephemeral-storage": "1Ti"} | extra
        meta: JsonObject = {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
            | labels,
            # Before KWOK sees the node, so that one which shall not be ready never is.
            "annotations": {} if ready else {NOT_READY: "true"},
        }
        status = {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": name}],
        }
        self._admin.create(
            {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {"taints": taints}, "status": status}
        )
        until(lambda: self._is(name, ready=ready), DEADLINE_S, f"node {name} {'ready' if ready else 'not ready'}")
        return name

    def _is(self, name: str, *, ready: bool) -> bool:
        node = self._admin.get("nodes", name)
        conditions = {entry["type"]: entry["status"] for entry in node["status"].get("conditions", [])}
        taints = {entry["key"] for entry in node["spec"].get("taints", [])}
        # The node lifecycle controller's taint follows the condition; a test that goes on earlier sees pods pending.
        return (conditions.get("Ready") == "True") is ready and ("node.kubernetes.io/not-ready" not in taints) is ready
