"""The stage of the end-to-end tests on kind: the worker is its only GPU node, and its pods really run something."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, cast

from common.domain import keys
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.controlplane.product import Product
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S, Stage, Tenant, at_once
from tests.kind.cluster import KindCluster
from tests.kind.images import WORKLOAD
from tests.kind.installation import Installation

RESTRICTED: Final[JsonObject] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


class KindTenant(Tenant):
    """As everywhere, but with an image that can be started."""

    def manifest(self, name: str, gpus: int = 1, *, args: tuple[str, ...] = (), **fields: Any) -> JsonObject:
        """A pod that fits the pod security standard "restricted"; without arguments it stays until it is told to go."""
        manifest = super().manifest(name, gpus, **fields)
        for container in manifest["spec"]["containers"]:
            container |= {"image": WORKLOAD, "imagePullPolicy": "IfNotPresent", "args": list(args)}
            container["securityContext"] = RESTRICTED
        return manifest

    def evict(self, name: str) -> None:
        """As drains do."""
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": self.namespace}}
        self.admin.request("POST", self.admin.path("pods", self.namespace, name, "eviction"), body=body)

    def gone(self, name: str, deadline_s: float) -> None:
        """Wait until nothing of a pod is stored."""
        until(lambda: self.admin.find("pods", name, self.namespace) is None, deadline_s, f"pod {name} gone")

    def _known(self, name: str, answer: Callable[[JsonObject], bool]) -> None:
        """Several dry runs at once reach every webhook replica, if there is one."""
        kind = cast("KindStage", self.stage)
        probe = self.manifest("probe", annotations={keys.USE_RESERVATION: name})
        if kind.installation.pods("gpures-webhook"):
            until(
                lambda: all(
                    answer(reply.object)
                    for reply in at_once(lambda _: self.admin.create(probe, dry_run=True), range(8), threads=8)
                ),
                DEADLINE_S,
                f"every webhook knows reservation {name}",
            )


class KindStage(Stage):
    """`close` waits until the worker is empty again, for the next one needs it."""

    def __init__(self, installation: Installation) -> None:
        """The product is not ours to start: nothing of it is a process here."""
        super().__init__(Product(installation.cluster))
        self.installation = installation
        self.kind: KindCluster = installation.cluster
        self.gpu_class = f"kind-{self.gpu_class}"

    def tenant(self, user: str = "alice") -> KindTenant:
        """A user with a namespace of their own, restricted as ordinary ones are."""
        tenant = KindTenant(self, user)
        label = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
        self.admin.patch("namespaces", tenant.namespace, label)
        self.tenants.append(tenant)
        return tenant

    def close(self) -> None:
        """Take everything away."""
        self.kind.remove_namespaces([tenant.namespace for tenant in self.tenants])
        for name in self.classes:
            self._delete("gpuclasses.gpures.dev", name)
        self.kind.nodes.undress()


def seconds(pod: JsonObject, start: str) -> timedelta:
    """Between an instant and the start of the pod's container."""
    (status,) = pod["status"]["containerStatuses"]
    return reading.instant(status["state"]["running"]["startedAt"]) - reading.instant(start)
