"""Our own processes on a control plane, as `deploy/` runs them: its manifests, its accounts, its RBAC, nothing more."""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.controlplane.api_proxy import ApiProxy
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.install import WEBHOOKS, documents, install
from tests.controlplane.polling import until
from tests.controlplane.processes import Child, free_port
from tests.controlplane.secret_files import SecretFiles
from tests.controlplane.services import service_splitter
from tests.controlplane.splitter import BackEnd, Splitter

NAMESPACE = "gpures-system"
SERVICE = "gpures-webhook"
TLS_SECRET = "gpures-webhook-tls"
READY_S = 30.0
CERTIFIED_S = 60.0
# Short drains: nothing here waits for endpoints to propagate.
QUICK = {"GPURES_DRAIN": "200ms", "GPURES_LISTEN_HOST": "127.0.0.1", "GPURES_CERT_POLL": "500ms"}


@dataclass(eq=False)
class Replica:
    """One process of ours and where it answers."""

    child: Child
    probe_port: int
    port: int = 0

    def ready(self) -> bool:
        return self._probe("readyz").startswith("ok")

    def metrics(self) -> str:
        return self._probe("metrics")

    def _probe(self, path: str) -> str:
        try:
            return httpx.get(f"http://127.0.0.1:{self.probe_port}/{path}", timeout=2).text
        except httpx.HTTPError:
            return ""


@dataclass(eq=False)
class Product:
    """Context manager: installs, starts what is asked for, waits until it is ready, and stops it again.

    Certificates are self-managed: the one-shot of installers makes the first, the leader rotates them, and `files` is
    the kubelet that brings the Secret to the webhooks.

    `webhook_api` and `reconciler_api` put a fault proxy between the processes and the API server.
    """

    control_plane: ControlPlane
    webhook_count: int = 2
    reconciler_count: int = 1
    hold: bool = True
    webhook_api: ApiProxy | None = None
    reconciler_api: ApiProxy | None = None
    environment: dict[str, str] = field(default_factory=dict)
    webhooks: list[Replica] = field(default_factory=list)
    reconcilers: list[Replica] = field(default_factory=list)

    def __enter__(self) -> Self:
        admin = self.control_plane.admin
        install(admin, hold=self.hold)
        for configuration in documents("base", WEBHOOKS):
            admin.apply(configuration, field_manager="gpures-install")
        folder = Path(tempfile.mkdtemp(prefix="webhook-tls-", dir=self.control_plane.directory))
        self.files = SecretFiles(admin, NAMESPACE, TLS_SECRET, folder)
        self.service: Splitter = service_splitter(self.control_plane, NAMESPACE, SERVICE).start()
        try:
            self._certify()
            self.files.start()
            for _ in range(self.webhook_count):
                self.add_webhook()
            for _ in range(self.reconciler_count):
                self.add_reconciler()
            self.wait_ready()
            for replica in [*self.webhooks, *self.reconcilers]:
                if not replica.child.running:
                    message = f"{replica.child.name} ended at its start:\n{replica.child.tail(20)}"
                    raise RuntimeError(message)  # noqa: TRY301 - what was started is stopped below
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End every process of ours and take the webhooks out of the API server's way."""
        for replica in [*self.webhooks, *self.reconcilers]:
            replica.child.thaw()
            replica.child.kill()
        self.files.stop()
        self.service.stop()
        for kind in ("mutating", "validating"):
            key = f"{kind}webhookconfigurations.admissionregistration.k8s.io"
            self.control_plane.admin.delete(key, "zz-gpures")
        self.webhooks.clear()
        self.reconcilers.clear()

    @property
    def ca_pem(self) -> bytes:
        """The bundle that verifies the webhooks now."""
        secret = self.control_plane.admin.get("secrets", TLS_SECRET, NAMESPACE)
        return base64.b64decode(secret["data"]["ca.crt"])

    def add_webhook(self) -> Replica:
        """Start one more replica behind the Service."""
        index = len(self.webhooks)
        replica = self._start("webhook", index, self.webhook_api, free_port())
        self.webhooks.append(replica)
        self.service.add(BackEnd("127.0.0.1", replica.port))
        return replica

    def add_reconciler(self) -> Replica:
        """Start one more replica; it stands by until the lease is free."""
        replica = self._start("reconciler", len(self.reconcilers), self.reconciler_api)
        self.reconcilers.append(replica)
        return replica

    def wait_ready(self) -> None:
        """Until every running replica is ready and one reconciler, if there is any, leads."""
        for replica in [*self.webhooks, *self.reconcilers]:
            if replica.child.running:
                until(replica.ready, READY_S, f"{replica.child.name} ready: {replica.child.tail(5)}")
        if any(replica.child.running for replica in self.reconcilers):
            until(lambda: self.leader() is not None, READY_S, "a reconciler leads")

    def leader(self) -> Replica | None:
        """The replica that says that it leads."""
        running = [replica for replica in self.reconcilers if replica.child.running]
        return next((r for r in running if "\ngpures_leader 1.0" in r.metrics()), None)

    @contextmanager
    def webhooks_stopped(self) -> Iterator[None]:
        """Kill every webhook; start them again afterwards."""
        for replica in self.webhooks:
            replica.child.kill()
        try:
            yield
        finally:
            for replica in self.webhooks:
                replica.child.start()
            self.wait_ready()

    def _start(self, program: str, index: int, proxy: ApiProxy | None, port: int = 0) -> Replica:
        probe_port = free_port()
        environment = {
            **QUICK,
            "GPURES_KUBECONFIG": str(self._kubeconfig(f"gpures-{program}", proxy)),
            "GPURES_PROBE_PORT": str(probe_port),
            "GPURES_INSTANCE": f"{program}-{index}",
            **self.environment,
        }
        if port:
            cert, key = self.files.folder / "tls.crt", self.files.folder / "tls.key"
            environment |= {"GPURES_LISTEN_PORT": str(port), "GPURES_CERT_FILE": str(cert), "GPURES_KEY_FILE": str(key)}
        command = [sys.executable, "-P", "-m", program]
        child = self.control_plane.run(f"{program}-{index}", command, env=environment, cwd=_root())
        return Replica(child, probe_port, port)

    def _kubeconfig(self, account: str, proxy: ApiProxy | None) -> Path:
        if proxy is None:
            return self.control_plane.kubeconfig_for_service_account(NAMESPACE, account)
        return self.control_plane.kubeconfig_for_service_account(NAMESPACE, account, server=proxy.server)

    def _certify(self) -> None:
        """What an installer's hook runs: `python -m certs`, with the reconciler's account."""
        environment = {
            "GPURES_KUBECONFIG": str(self._kubeconfig("gpures-reconciler", None)),
            # A cluster that was in use before keeps its CA; waiting for kubelets would be waiting for nobody.
            "GPURES_CERT_PROPAGATION": "1s",
            **self.environment,
        }
        child = self.control_plane.run("certs", [sys.executable, "-P", "-m", "certs"], env=environment, cwd=_root())
        if child.wait(CERTIFIED_S) != 0:
            message = f"no certificates: {child.tail(5)}"
            raise RuntimeError(message)


def _root() -> Path:
    return Path(__file__).resolve().parents[2]
