"""The command lines of the control plane's programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.controlplane.pki import Pair
from tests.controlplane.programs import Programs

HERE = Path(__file__).parent
POLICY_RESOURCES = ("mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
# The tests judge our own pace; the brakes that clients of a real cluster put on themselves would only blur it.
CLIENT_QPS = 500
CLIENT_BURST = 1000


@dataclass(frozen=True)
class Ports:
    """The loopback ports of one control plane."""

    etcd: int
    etcd_peer: int
    apiserver: int
    scheduler: int
    controller_manager: int
    kwok: int


@dataclass(frozen=True)
class Layout:
    """Everything that the command lines mention."""

    directory: Path
    etcd_data: Path
    programs: Programs
    ports: Ports
    serving_ca: Path
    serving: Pair
    client_ca: Path
    front_proxy_ca: Path
    service_account: Pair
    service_cidr: str

    @property
    def audit_log(self) -> Path:
        """Return the file that the API server writes its audit events to."""
        return self.directory / "audit.log"


def etcd(layout: Layout) -> list[str]:
    """One member, that forgets everything with its machine."""
    client, peer = (f"http://127.0.0.1:{port}" for port in (layout.ports.etcd, layout.ports.etcd_peer))
    return [
        str(layout.programs.etcd),
        "--name=test",
        f"--data-dir={layout.etcd_data}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=test={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def kube_apiserver(layout: Layout, *, hold_policy_api: bool, extra: Sequence[str] = ()) -> list[str]:
    """RBAC, client certificates, service-account tokens, the audit log; no kubelet and no kube-proxy behind it."""
    command = [
        str(layout.programs.kube_apiserver),
        f"--etcd-servers=http://127.0.0.1:{layout.ports.etcd}",
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        f"--secure-port={layout.ports.apiserver}",
        f"--tls-cert-file={layout.serving.certificate}",
        f"--tls-private-key-file={layout.serving.key}",
        f"--client-ca-file={layout.client_ca}",
        # Nobody is a front proxy here, but components complain every second while its authority is not known.
        f"--requestheader-client-ca-file={layout.front_proxy_ca}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.service_account.certificate}",
        f"--service-account-signing-key-file={layout.service_account.key}",
        "--authorization-mode=RBAC",
        f"--service-cluster-ip-range={layout.service_cidr}",
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
        f"--audit-policy-file={HERE / 'audit-policy.yaml'}",
        f"--audit-log-path={layout.audit_log}",
        # One file: whoever reads it need not follow a rotation.
        "--audit-log-maxsize=100000",
    ]
    if not hold_policy_api:
        served = ",".join(f"admissionregistration.k8s.io/v1/{name}=false" for name in POLICY_RESOURCES)
        command += [f"--runtime-config={served}", "--feature-gates=MutatingAdmissionPolicy=false"]
    return [*command, *extra]


def kube_scheduler(layout: Layout, kubeconfig: Path) -> list[str]:
    """The real scheduler, without its own brakes."""
    config = layout.directory / "kube-scheduler.yaml"
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": CLIENT_QPS, "burst": CLIENT_BURST},
        "leaderElection": {"leaderElect": False},
    }
    config.write_text(yaml.safe_dump(content))
    program, port = layout.programs.kube_scheduler, layout.ports.scheduler
    return [str(program), f"--config={config}", *_delegated(layout, kubeconfig, port)]


def kube_controller_manager(layout: Layout, kubeconfig: Path) -> list[str]:
    """All controllers, each under its own service account as in a real cluster."""
    return [
        str(layout.programs.kube_controller_manager),
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.service_account.key}",
        f"--root-ca-file={layout.serving_ca}",
        f"--kube-api-qps={CLIENT_QPS}",
        f"--kube-api-burst={CLIENT_BURST}",
        *_delegated(layout, kubeconfig, layout.ports.controller_manager),
    ]


def kwok(layout: Layout, kubeconfig: Path) -> list[str]:
    """The kubelet's stand-in, driven by our stages."""
    stages = layout.directory / "stages.yaml"
    stages.write_text("---\n".join(path.read_text() for path in sorted((HERE / "stages").glob("*.yaml"))))
    return [
        str(layout.programs.kwok),
        f"--kubeconfig={kubeconfig}",
        f"--config={stages}",
        "--manage-all-nodes=true",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{layout.ports.kwok}",
    ]


def _delegated(layout: Layout, kubeconfig: Path, port: int) -> list[str]:
    return [
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        f"--client-ca-file={layout.client_ca}",
        f"--tls-cert-file={layout.serving.certificate}",
        f"--tls-private-key-file={layout.serving.key}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
    ]
