"""A real control plane as a context manager: started in seconds, stopped without leaving anything behind."""

from __future__ import annotations

import itertools
import random
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from tests.controlplane import components
from tests.controlplane.audit import AuditLog
from tests.controlplane.client import ApiClient
from tests.controlplane.components import Layout, Ports
from tests.controlplane.discovery import JsonObject
from tests.controlplane.kubeconfig import Connection, write_kubeconfig
from tests.controlplane.nodes import Nodes
from tests.controlplane.pki import LOOPBACK_NAMES, CertificateAuthority, write_service_account_key
from tests.controlplane.polling import until
from tests.controlplane.processes import Child, free_port
from tests.controlplane.programs import Programs, ensure_programs
from tests.controlplane.storage import DataFolder

READY_DEADLINE_S = 90.0
TOKEN_LIFE_S = 86_400
ADMIN_GROUPS = ("system:masters",)


class ControlPlane:
    """etcd, kube-apiserver, scheduler, controller manager and KWOK, on loopback."""

    def __init__(
        self,
        *,
        hold_policy_api: bool = True,
        programs: Programs | None = None,
        apiserver_args: Sequence[str] = (),
        keep_directory: bool = False,
    ) -> None:
        """Choose; nothing runs before start().

        hold_policy_api=False gives a cluster that serves no MutatingAdmissionPolicy, as before Kubernetes 1.36.
        """
        self.keep_directory = keep_directory
        self._hold_policy_api = hold_policy_api
        self._programs = programs
        self._apiserver_args = tuple(apiserver_args)
        self._stack = ExitStack()
        self._count = itertools.count(1)
        self._names: set[str] = set()
        self.children: dict[str, Child] = {}

    def __enter__(self) -> Self:
        """Start, and return when everything is ready."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop everything; the logs stay when the block failed."""
        self.keep_directory = self.keep_directory or error is not None
        self.stop()

    def start(self) -> Self:
        """Start everything and wait until it serves; on failure the message says where the logs are."""
        programs = self._programs or ensure_programs()
        self.directory = Path(tempfile.mkdtemp(prefix="gpures-controlplane-"))
        try:
            self._prepare(programs)
            self._run()
        except Exception as error:
            raise RuntimeError(self._abandon(error)) from error
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """Stop what was started, last first; the folder goes unless it is to be kept."""
        self._stack.close()
        if not self.keep_directory:
            shutil.rmtree(self.directory, ignore_errors=True)

    def kubeconfig_for_service_account(
        self, namespace: str, name: str, *, server: str | None = None, ca: Path | None = None, token: bool = True
    ) -> Path:
        """Write a kubeconfig for an existing service account: a bound token, or a certificate that says the same.

        With server and ca another party may stand between, as a fault proxy does; only tokens pass through one.
        """
        user = f"system:serviceaccount:{namespace}:{name}"
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        if not token:
            return self.kubeconfig_as_user(user, groups, server=server, ca=ca)
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": TOKEN_LIFE_S},
        }
        reply = self.admin.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token", body=request)
        issued = str(reply.object["status"]["token"])
        connection = Connection(server or self.server, ca or self.ca.file, token=issued)
        return write_kubeconfig(self._fresh_file(user, ".kubeconfig"), connection)

    def kubeconfig_as_user(
        self, user: str, groups: Sequence[str] = (), *, server: str | None = None, ca: Path | None = None
    ) -> Path:
        """Write a kubeconfig with a client certificate for a user."""
        path = self._fresh_file(user, ".kubeconfig")
        pair = self.client_ca.client(path.stem, user, groups)
        return write_kubeconfig(path, Connection(server or self.server, ca or self.ca.file, pair=pair))

    def kubectl(
        self,
        *arguments: str,
        kubeconfig: Path | None = None,
        stdin: str | None = None,
        check: bool = True,
        deadline_s: float = 30.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl, as admin unless another kubeconfig is given."""
        command = [str(self.layout.programs.kubectl), f"--kubeconfig={kubeconfig or self.admin_kubeconfig}", *arguments]
        # Its discovery cache must not be shared with other clusters on the same port.
        environment = {"HOME": str(self.directory), "PATH": "", "KUBECACHEDIR": str(self.directory / "kubectl-cache")}
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=deadline_s, check=False, env=environment
        )
        if check and done.returncode != 0:
            message = f"kubectl {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
            raise RuntimeError(message)
        return done

    def create_namespace(self, name: str, *, labels: dict[str, str] | None = None) -> str:
        """Create a namespace and wait for its default service account, without which no pod can be created there."""
        meta: JsonObject = {"name": name, "labels": labels or {}}
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        until(lambda: self.admin.find("serviceaccounts", "default", name), 30.0, f"default service account of {name}")
        return name

    def unique_namespace(self, prefix: str = "test") -> str:
        """Create a namespace that no other test has."""
        return self.create_namespace(f"{prefix}-{next(self._count)}")

    def run(
        self, name: str, command: Sequence[str], *, env: dict[str, str] | None = None, cwd: Path | None = None
    ) -> Child:
        """Start a process of the product under our care: its log lies with the others, it dies with the test run."""
        child = Child(command, self._fresh_file(name, ".log"), env=env, cwd=cwd)
        self.children[child.name] = child
        child.start()
        self._stack.callback(child.terminate)
        return child

    def restart_apiserver(self) -> None:
        """Kill the API server and start it again; what was stored stays, every connection and watch is cut."""
        apiserver = self.children["kube-apiserver"]
        apiserver.kill()
        apiserver.start()
        self._ready(apiserver, f"{self.server}/readyz")

    def _prepare(self, programs: Programs) -> None:
        data = DataFolder(self.directory)
        self._stack.callback(data.remove)
        certificates = self.directory / "certificates"
        certificates.mkdir()
        self.ca = CertificateAuthority(certificates, "serving-ca")
        self.client_ca = CertificateAuthority(certificates, "client-ca")
        # A network of Services inside 127/8: a listener in this process can stand at a Service's own address, where
        # the API server looks for webhooks, though nothing here moves packets.
        network = f"127.{random.randint(64, 250)}.{random.randint(0, 255)}.0/24"
        kubernetes = network.replace("0/24", "1")
        self.layout = Layout(
            directory=self.directory,
            etcd_data=data.path,
            programs=programs,
            ports=Ports(*(free_port() for _ in range(6))),
            serving_ca=self.ca.file,
            serving=self.ca.server("serving", (*LOOPBACK_NAMES, kubernetes)),
            client_ca=self.client_ca.file,
            front_proxy_ca=CertificateAuthority(certificates, "front-proxy-ca").file,
            service_account=write_service_account_key(certificates),
            service_cidr=network,
        )
        self.server = f"https://127.0.0.1:{self.layout.ports.apiserver}"
        self.audit = AuditLog(self.layout.audit_log, self._mark)
        self.admin_kubeconfig = self.kubeconfig_as_user("kubernetes-admin", ADMIN_GROUPS)
        self.admin = ApiClient.from_kubeconfig(self.admin_kubeconfig)
        self._stack.callback(self.admin.close)
        self.nodes = Nodes(self.admin)

    def _run(self) -> None:
        layout = self.layout
        etcd = self.run("etcd", components.etcd(layout))
        self._ready(etcd, f"http://127.0.0.1:{layout.ports.etcd}/health")
        command = components.kube_apiserver(layout, hold_policy_api=self._hold_policy_api, extra=self._apiserver_args)
        apiserver = self.run("kube-apiserver", command)
        self._ready(apiserver, f"{self.server}/readyz")
        controller_manager = self.run(
            "kube-controller-manager",
            components.kube_controller_manager(layout, self.kubeconfig_as_user("system:kube-controller-manager")),
        )
        scheduler = self.run(
            "kube-scheduler", components.kube_scheduler(layout, self.kubeconfig_as_user("system:kube-scheduler"))
        )
        environment = {"HOME": str(self.directory), "PATH": ""}
        kwok = self.run("kwok", components.kwok(layout, self.kubeconfig_as_user("kwok", ADMIN_GROUPS)), env=environment)
        self._ready(controller_manager, f"https://127.0.0.1:{layout.ports.controller_manager}/healthz")
        self._ready(scheduler, f"https://127.0.0.1:{layout.ports.scheduler}/readyz")
        self._ready(kwok, f"http://127.0.0.1:{layout.ports.kwok}/healthz")
        until(
            lambda: self.admin.find("serviceaccounts", "default", "default"),
            READY_DEADLINE_S,
            "default service account",
        )

    def _ready(self, child: Child, url: str) -> None:
        def answers() -> bool:
            if not child.running:
                message = f"{child.name} ended with {child.code}"
                raise RuntimeError(message)
            return probe.get(url).status_code == httpx.codes.OK

        with httpx.Client(verify=self.admin.connection.tls(), trust_env=False, timeout=5.0) as probe:
            until(answers, READY_DEADLINE_S, f"{child.name} ready", retry_on=(httpx.TransportError,))

    def _mark(self, name: str) -> None:
        self.admin.find("pods", name, "default")

    def _abandon(self, error: Exception) -> str:
        self.keep_directory = True
        tails = "\n".join(f"--- {child.log}\n{child.tail(8)}" for child in self.children.values())
        self.stop()
        return f"the control plane did not start: {error}\nlogs are in {self.directory}\n{tails}"

    def _fresh_file(self, text: str, suffix: str) -> Path:
        plain = re.sub(r"[^A-Za-z0-9.-]+", "-", text).strip("-")
        # One user may get several kubeconfigs, and one name several processes in turn.
        name = f"{plain}{suffix}"
        if name in self._names:
            name = f"{plain}-{next(self._count)}{suffix}"
        self._names.add(name)
        return self.directory / name
