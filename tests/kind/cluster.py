"""A cluster that somebody else started, where a test expects a control plane: the same clients, nodes and kubectl."""

from __future__ import annotations

import base64
import itertools
import json
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.chart.reference import ROOT
from tests.controlplane.client import ApiClient
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.kubeconfig import Connection
from tests.controlplane.nodes import GPU, TAINT, Nodes
from tests.controlplane.pki import Pair, write_private
from tests.controlplane.polling import until
from tests.controlplane.programs import ensure_programs
from tests.kind.running import UnableError, run

GPUS: Final = ROOT / "deploy" / "kind" / "gpus"
CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
GONE_S: Final = 120.0


class KindCluster(ControlPlane):
    """A running cluster by its kubeconfig. It starts and stops nothing; what it changed on nodes it changes back."""

    def __init__(self, kubeconfig: Path) -> None:
        """Take who may do everything."""
        super().__init__()
        self.admin_kubeconfig = kubeconfig
        self._labelled = itertools.count(os.getpid() * 1000)

    def __enter__(self) -> Self:
        """Connect."""
        self._home = tempfile.TemporaryDirectory(prefix="gpures-kind-")
        self.directory = Path(self._home.name)
        self.admin = ApiClient(self._connection())
        self.server = self.admin.connection.server
        self.nodes: KindNodes = KindNodes(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the nodes as they were."""
        self.nodes.restore()
        self.admin.close()
        self._home.cleanup()

    def kubectl(
        self,
        *arguments: str,
        kubeconfig: Path | None = None,
        stdin: str | None = None,
        check: bool = True,
        deadline_s: float = 30.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl, as admin unless another kubeconfig is given."""
        command = [str(ensure_programs().kubectl), f"--kubeconfig={kubeconfig or self.admin_kubeconfig}", *arguments]
        environment = {"HOME": str(self.directory), "PATH": ""}
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=deadline_s, check=False, env=environment
        )
        if check and done.returncode != 0:
            message = f"kubectl {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
            raise RuntimeError(message)
        return done

    def unique_namespace(self, prefix: str = "test") -> str:
        """Create a namespace that neither this run nor the one before has."""
        return self.create_namespace(f"{prefix}-{next(self._labelled)}")

    def remove_namespaces(self, names: list[str]) -> None:
        """Delete, and wait until kubelets have ended what ran there."""
        for name in names:
            if self.admin.find("namespaces", name) is not None:
                self.admin.delete("namespaces", name)
        until(lambda: not any(self.admin.find("namespaces", name) for name in names), GONE_S, f"{names} gone")

    def version(self) -> str:
        """Version of the API server."""
        return str(self.admin.request("GET", "/version").object["gitVersion"])

    def _connection(self) -> Connection:
        shown = self.kubectl("config", "view", "--raw", "--minify", "--flatten", "--output=json").stdout
        content = json.loads(shown)
        cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
        authority = self._file("ca.crt", cluster["certificate-authority-data"])
        if "token" in user:
            return Connection(cluster["server"], authority, token=user["token"])
        if "client-key-data" not in user:
            message = "the kubeconfig has neither a client certificate nor a token: the suite runs no login program"
            raise UnableError(message)
        pair = Pair(
            self._file("admin.crt", user["client-certificate-data"]), self._file("admin.key", user["client-key-data"])
        )
        return Connection(cluster["server"], authority, pair)

    def _file(self, name: str, encoded: str) -> Path:
        return write_private(self.directory / name, base64.b64decode(encoded))


class KindNodes(Nodes):
    """One worker plays the GPU node of whatever class a test has; everything else runs on the control plane's node."""

    def __init__(self, cluster: KindCluster) -> None:
        """Find who is who."""
        super().__init__(cluster.admin)
        self._cluster = cluster
        nodes = cluster.admin.items("nodes")
        workers = sorted(_name(node) for node in nodes if CONTROL_PLANE not in node["metadata"]["labels"])
        self.planes = sorted(_name(node) for node in nodes if CONTROL_PLANE in node["metadata"]["labels"])
        if not workers:
            message = "the cluster has no worker that could be given GPUs: two nodes are needed"
            raise UnableError(message)
        self.worker = workers[0]
        self._dressed = False
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
        """Dress the worker as a node of the class."""
        del name
        assert taint
        assert ready
        assert not labels
        self._script("give", self.worker, gpu_class, str(gpus))
        self._dressed = True
        return self.worker

    def undress(self) -> None:
        """Take the class and the GPUs off the worker."""
        if self._dressed:
            self._script("take", self.worker)
            self._dressed = False

    def restore(self) -> None:
        """As the cluster was before."""
        self.undress()
        for name in self._opened:
            taint = {"key": CONTROL_PLANE, "effect": "NoSchedule"}
            self._set_taints(name, [*self._taints(name), taint])

    def gpus(self) -> str:
        """What the kubelet says that the worker can give."""
        return str(self._cluster.admin.get("nodes", self.worker)["status"]["allocatable"].get(GPU, "0"))

    def _open_planes(self) -> None:
        """Whatever has no GPU needs a place that the class's taint does not close."""
        self._opened = [name for name in self.planes if any(t["key"] == CONTROL_PLANE for t in self._taints(name))]
        for name in self._opened:
            self._set_taints(name, [taint for taint in self._taints(name) if taint["key"] != CONTROL_PLANE])
        leftover = [taint for taint in self._taints(self.worker) if taint["key"] == TAINT]
        if leftover:
            self._script("take", self.worker)

    def _taints(self, name: str) -> list[JsonObject]:
        found: list[JsonObject] = self._cluster.admin.get("nodes", name)["spec"].get("taints", [])
        return found

    def _set_taints(self, name: str, taints: list[JsonObject]) -> None:
        self._cluster.admin.patch("nodes", name, {"spec": {"taints": taints}})

    def _script(self, *arguments: str) -> None:
        program = str(ensure_programs().kubectl)
        run(GPUS, *arguments, env={"KUBECTL": program, "KUBECONFIG": str(self._cluster.admin_kubeconfig)})


def _name(node: JsonObject) -> str:
    return str(node["metadata"]["name"])
