"""The nodes of a kind cluster, dressed as GPU nodes for as long as a test wants them so."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.chart.reference import ROOT
from tests.controlplane.client import ApiClient
from tests.controlplane.discovery import JsonObject
from tests.controlplane.nodes import TAINT, Nodes
from tests.controlplane.programs import ensure_programs
from tests.kind.running import UnableError, run

EXEC_S: Final = 30.0
GPUS: Final = ROOT / "deploy" / "kind" / "gpus"
CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"


class KindNodes(Nodes):
    """The worker plays the GPU node of whatever class a test has, and everything else runs on the control plane's node.

    A second GPU node is the control plane's; then nothing new comes to run without a toleration of the class.
    """

    def __init__(self, admin: ApiClient, kubeconfig: Path) -> None:
        """Find who is who."""
        super().__init__(admin)
        self._kubeconfig = kubeconfig
        nodes = admin.items("nodes")
        workers = sorted(_name(node) for node in nodes if CONTROL_PLANE not in node["metadata"]["labels"])
        self.planes = sorted(_name(node) for node in nodes if CONTROL_PLANE in node["metadata"]["labels"])
        if not workers:
            message = "the cluster has no worker that could be given GPUs: two nodes are needed"
            raise UnableError(message)
        self.worker = workers[0]
        self._hosts = [*workers, *self.planes]
        self._dressed: list[str] = []
        self._labels: dict[str, JsonObject] = {}
        self._open_planes()

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
        """Dress the next node as one of the class; the test is skipped where there is none."""
        del name
        assert ready
        assert not labels
        host = next((host for host in self._hosts if host not in self._dressed), None)
        if host is None:
            pytest.skip(f"needs more GPU nodes than the {len(self._hosts)} nodes of this cluster")
        self._dressed.append(host)
        self._labels[host] = self._admin.get("nodes", host)["metadata"]["labels"]
        self._script("give", host, gpu_class, str(gpus))
        if not taint:
            self._set_taints(host, [entry for entry in self._taints(host) if entry["key"] != TAINT])
        return host

    def add_cpu_node(self, name: str, *, labels: dict[str, str] | None = None, ready: bool = True) -> str:
        """One that no class has yet."""
        del name
        assert ready
        assert not labels
        return next(host for host in reversed(self._hosts) if host not in self._dressed)

    def undress(self) -> None:
        """Take the classes and the GPUs off the nodes, and what labels a test has put there."""
        while self._dressed:
            host = self._dressed.pop()
            self._script("take", host)
            left = self._admin.get("nodes", host)["metadata"]["labels"].keys() - self._labels[host].keys()
            self._admin.patch("nodes", host, {"metadata": {"labels": dict.fromkeys(left)}})

    def complete_pod(self, namespace: str, name: str) -> None:
        """Tell the program of a running pod to end well."""
        self._tell(namespace, name, "end")

    def fail_pod(self, namespace: str, name: str) -> None:
        """Tell the program of a running pod to end badly."""
        self._tell(namespace, name, "fail")

    def _tell(self, namespace: str, name: str, word: str) -> None:
        # Whether the exec itself ends well depends on which of the two programs is sooner gone.
        command = ("exec", f"--namespace={namespace}", name, "--", "/workload", word)
        run(ensure_programs().kubectl, f"--kubeconfig={self._kubeconfig}", *command, check=False, deadline_s=EXEC_S)

    def restore(self) -> None:
        """As the cluster was before."""
        self.undress()
        for name in self._opened:
            taint = {"key": CONTROL_PLANE, "effect": "NoSchedule"}
            self._set_taints(name, [*self._taints(name), taint])

    def _open_planes(self) -> None:
        """Whatever has no GPU needs a place that the class's taint does not close."""
        self._opened = [name for name in self.planes if any(t["key"] == CONTROL_PLANE for t in self._taints(name))]
        for name in self._opened:
            self._set_taints(name, [taint for taint in self._taints(name) if taint["key"] != CONTROL_PLANE])
        for host in self._hosts:
            if any(taint["key"] == TAINT for taint in self._taints(host)):
                self._script("take", host)

    def _taints(self, name: str) -> list[JsonObject]:
        found: list[JsonObject] = self._admin.get("nodes", name)["spec"].get("taints", [])
        return found

    def _set_taints(self, name: str, taints: list[JsonObject]) -> None:
        self._admin.patch("nodes", name, {"spec": {"taints": taints}})

    def _script(self, *arguments: str) -> None:
        program = str(ensure_programs().kubectl)
        run(GPUS, *arguments, env={"KUBECTL": program, "KUBECONFIG": str(self._kubeconfig)})


def _name(node: JsonObject) -> str:
    return str(node["metadata"]["name"])
