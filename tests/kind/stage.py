"""The stage of the end-to-end tests on kind: nodes are dressed for it, and its pods really run something."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from tests.controlplane.audit import AuditLog
from tests.controlplane.client import Reply
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.controlplane.product import Product
from tests.e2e import reading
from tests.e2e.stage import Stage, Tenant
from tests.kind.cluster import KindCluster
from tests.kind.images import WORKLOAD
from tests.kind.installation import Installation

ENFORCED: Final = {"pod-security.kubernetes.io/enforce": "restricted"}
RESTRICTED: Final[JsonObject] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def runnable(pod: JsonObject, args: tuple[str, ...] = ()) -> JsonObject:
    """A pod that fits the pod security standard "restricted"; without arguments it stays until it is told to go."""
    for kind in ("initContainers", "containers"):
        for container in pod["spec"].get(kind, []):
            container |= {"image": WORKLOAD, "imagePullPolicy": "IfNotPresent", "args": list(args)}
            container["securityContext"] = RESTRICTED
    return pod


class KindTenant(Tenant):
    """As everywhere, but with an image that can be started."""

    def manifest(self, name: str, gpus: int = 1, *, args: tuple[str, ...] = (), **fields: Any) -> JsonObject:
        return runnable(super().manifest(name, gpus, **fields), args)

    def create_pod(self, name: str, gpus: int = 1, *, dry_run: bool = False, **fields: Any) -> Reply:
        """A pod that has ended stays so, as on stand-in nodes."""
        fields["spec"] = {"restartPolicy": "Never"} | fields.get("spec", {})
        return super().create_pod(name, gpus, dry_run=dry_run, **fields)

    def evict(self, name: str) -> None:
        """As drains do."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": self.namespace}}
        self.admin.request("POST", self.admin.path("pods", self.namespace, name, "eviction"), body=body)

    def gone(self, name: str, deadline_s: float) -> None:
        """Wait until nothing of a pod is stored."""
        until(lambda: self.admin.find("pods", name, self.namespace) is None, deadline_s, f"pod {name} gone")


class KindStage(Stage):
    """`close` waits until the nodes are empty again, for the next one needs them."""

    def __init__(self, installation: Installation) -> None:
        """The product is not ours to start: nothing of it is a process here."""
        super().__init__(Product(installation.cluster))
        self.installation = installation
        self.kind: KindCluster = installation.cluster
        self.gpu_class = f"kind-{self.gpu_class}"

    def tenant(self, user: str = "alice") -> KindTenant:
        """A user with a namespace of their own, restricted as ordinary ones are."""
        tenant = KindTenant(self, user)
        self.admin.patch("namespaces", tenant.namespace, {"metadata": {"labels": ENFORCED}})
        self.tenants.append(tenant)
        return tenant

    @property
    def audit(self) -> AuditLog | None:
        """It lies on a disk of the API server's node."""
        return None

    def has_webhooks(self) -> bool:
        return bool(self.installation.pods("gpures-webhook"))

    def close(self) -> None:
        """Take everything away."""
        self.kind.empty_namespaces([tenant.namespace for tenant in self.tenants])
        for name in self.classes:
            self._delete("gpuclasses.gpures.dev", name)
        self.kind.nodes.undress()


def seconds(pod: JsonObject, start: str) -> timedelta:
    """Between an instant and the start of the pod's container."""
    (status,) = pod["status"]["containerStatuses"]
    return reading.instant(status["state"]["running"]["startedAt"]) - reading.instant(start)
