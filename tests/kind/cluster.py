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

from tests.controlplane.client import ApiClient
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.kubeconfig import Connection
from tests.controlplane.pki import Pair, write_private
from tests.controlplane.polling import until
from tests.controlplane.programs import ensure_programs
from tests.kind.nodes import KindNodes
from tests.kind.running import UnableError

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
        self.nodes: KindNodes = KindNodes(self.admin, self.admin_kubeconfig)
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
        """Delete, and wait until nothing of them is left."""
        self.empty_namespaces(names)
        until(lambda: not any(self.admin.find("namespaces", name) for name in names), GONE_S, f"{names} gone")

    def empty_namespaces(self, names: list[str]) -> None:
        """Delete, and wait until kubelets have ended what ran there: until then its GPUs are nobody else's."""
        for name in names:
            if self.admin.find("namespaces", name) is not None:
                # Before the pods, so that no controller makes new ones.
                self.admin.delete("namespaces", name)
                self.admin.request("DELETE", self.admin.path("pods", name))
        until(lambda: not any(map(self._placed, names)), GONE_S, f"pods of {names} gone")

    def _placed(self, namespace: str) -> bool:
        return any(pod["spec"].get("nodeName") for pod in self.admin.items("pods", namespace))

    def remove_classes(self, names: list[str]) -> None:
        """Delete GPUClasses."""
        for name in names:
            if self.admin.find("gpuclasses.gpures.dev", name) is not None:
                self.admin.delete("gpuclasses.gpures.dev", name)

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
