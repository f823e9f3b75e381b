"""The product as people install it: helm, the chart's defaults, nothing else."""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.chart.helm import CHART, NAMESPACE, RELEASE, helm
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.e2e import reading, untouched
from tests.kind.cluster import KindCluster
from tests.kind.images import Image
from tests.kind.running import run

DEPLOYMENTS: Final = ("gpures-webhook", "gpures-reconciler")
CRDS: Final = ("gpuclasses.gpures.dev", "gpureservations.gpures.dev")
LEASE: Final = "gpures-reconciler"
DEADLINE_S: Final = 120.0
STOP: Final = """
for process in /proc/[0-9]*; do
    grep -q /gpures- $process/cmdline || continue
    case $(cat $process/cgroup) in *UID*) kill -STOP ${process#/proc/} ;; esac
done
true
"""
"""Run on a node: stops the program of ours in the pod with this UID."""


class Installation:
    """One release in one cluster."""

    def __init__(self, cluster: KindCluster, image: Image) -> None:
        """Nothing happens before `install`."""
        self.cluster = cluster
        self.admin = cluster.admin
        self.image = image
        self.ready_after_s = 0.0
        self.stored_before: Mapping[str, str] = {}
        """What the API server made of some pods when it did not know of us."""

    def look_before(self) -> None:
        """Create the pods of `untouched` on the cluster as it is."""
        self.cluster.create_namespace(untouched.NAMESPACE)
        self.stored_before = {name: text for name, (text, _) in untouched.store_all(self.cluster).items()}

    def install(self, *values: str) -> None:
        """Install into a restricted namespace, by default with the chart's defaults, and wait until all is ready."""
        self.cluster.create_namespace(NAMESPACE, labels={"pod-security.kubernetes.io/enforce": "restricted"})
        started = time.monotonic()
        self.helm("install", RELEASE, str(CHART), *_values(self.image, *values))
        for name in DEPLOYMENTS:
            self.wait_ready(name)
        until(self.certified, DEADLINE_S, "the CA is in every webhook configuration")
        until(self.leader, DEADLINE_S, "a reconciler leads")
        self.ready_after_s = time.monotonic() - started

    def ensure(self) -> None:
        """Install again, if a test has uninstalled."""
        if not self.installed():
            self.remove_leavings()
            self.install()

    def upgrade(self, chart: Path = CHART, image: Image | None = None) -> None:
        """To another chart and image, and wait until everything of it is ready."""
        self.helm("upgrade", RELEASE, str(chart), *_values(image or self.image))
        for name in DEPLOYMENTS:
            self.wait_ready(name)
        until(self.leader, DEADLINE_S, "a reconciler leads")

    def uninstall(self) -> None:
        """Uninstall, and wait until the pods of the product are gone; the namespace stays, as people have it."""
        self.helm("uninstall", RELEASE, "--wait")
        until(lambda: not self.pods(), DEADLINE_S, "no pod of the product")

    def remove_leavings(self) -> None:
        """What uninstalling leaves on purpose: CRDs and the namespace."""
        for name in CRDS:
            if self.admin.find("customresourcedefinitions.apiextensions.k8s.io", name) is not None:
                self.admin.delete("customresourcedefinitions.apiextensions.k8s.io", name)
        self.cluster.remove_namespaces([NAMESPACE])

    def leave(self) -> None:
        """Nothing of this run stays."""
        if self.installed():
            self.uninstall()
        self.remove_leavings()
        self.cluster.remove_namespaces([untouched.NAMESPACE])

    def installed(self) -> bool:
        """Whether helm knows the release."""
        return RELEASE in self.helm("list", "--short").split()

    def helm(self, *arguments: str) -> str:
        """Run helm in the namespace of the release."""
        return helm(*arguments, f"--kubeconfig={self.cluster.admin_kubeconfig}", f"--namespace={NAMESPACE}").stdout

    def scale(self, name: str, replicas: int) -> None:
        """Scale one of the Deployments, and wait until as many pods are there."""
        self.admin.patch("deployments.apps", name, {"spec": {"replicas": replicas}}, NAMESPACE)
        if replicas:
            self.wait_ready(name)
        else:
            until(lambda: not self.pods(name), DEADLINE_S, f"no pod of {name}")

    def kill_pod(self, name: str) -> None:
        """Without a moment to give up anything."""
        self.admin.delete("pods", name, NAMESPACE, grace_s=0)

    def replace_pod(self, name: str) -> None:
        """Kill a pod of the product, and wait until there is another one in its place."""
        self.kill_pod(name)
        for deployment in DEPLOYMENTS:
            self.wait_ready(deployment)

    def freeze(self, name: str) -> None:
        """Stop the program of a pod as a debugger does: it keeps its sockets and answers nothing."""
        pod = self.admin.get("pods", name, NAMESPACE)
        uid = str(pod["metadata"]["uid"]).replace("-", "?")
        run("docker", "exec", str(pod["spec"]["nodeName"]), "sh", "-c", STOP.replace("UID", uid))

    def spread(self) -> None:
        """Where both replicas have come onto one node, one of them goes to another."""
        for deployment in DEPLOYMENTS:
            pods = self.pods(deployment)
            if len({pod["spec"].get("nodeName") for pod in pods}) < len(pods):
                self.replace_pod(str(pods[0]["metadata"]["name"]))

    def wait_ready(self, name: str) -> None:
        """Until every replica is of the newest revision and ready."""
        until(lambda: _rolled_out(self.admin.get("deployments.apps", name, NAMESPACE)), DEADLINE_S, f"{name} ready")

    def pods(self, name: str = "") -> Sequence[JsonObject]:
        """Pods of the product, or of one of its Deployments."""
        component = f",app.kubernetes.io/component={name.removeprefix('gpures-')}" if name else ""
        return self.admin.items("pods", NAMESPACE, labels=f"app.kubernetes.io/name=gpu-reservations{component}")

    def certified(self) -> bool:
        """Whether every webhook of ours has a CA."""
        return all(
            entry["clientConfig"].get("caBundle")
            for kind in ("mutating", "validating")
            for entry in self.admin.get(f"{kind}webhookconfigurations.admissionregistration.k8s.io", "zz-gpures")[
                "webhooks"
            ]
        )

    def leader(self) -> str:
        """Name of the pod that leads, empty while nobody does."""
        leases = self.admin.items("leases.coordination.k8s.io", NAMESPACE)
        holders = [str(lease["spec"].get("holderIdentity") or "") for lease in leases]
        names = [str(pod["metadata"]["name"]) for pod in self.pods("gpures-reconciler")]
        return next((name for name in names if any(holder.startswith(name) for holder in holders)), "")

    def restarts(self) -> int:
        """How often containers of the product were started again."""
        return sum(
            int(status["restartCount"]) for pod in self.pods() for status in pod["status"].get("containerStatuses", [])
        )


def _values(image: Image, *more: str) -> Sequence[str]:
    given = (f"image.repository={image.repository}", *more)
    sets = [argument for value in given for argument in ("--set", value)]
    return (*sets, "--set-string", f"image.tag={image.tag}")


def gated(cluster: KindCluster) -> Sequence[str]:
    """Every pod of the cluster that is behind our gate."""
    return [str(pod["metadata"]["name"]) for pod in cluster.admin.items("pods") if reading.held(pod)]


def _rolled_out(deployment: JsonObject) -> bool:
    status, wanted = deployment.get("status", {}), deployment["spec"]["replicas"]
    return bool(
        status.get("observedGeneration", 0) >= deployment["metadata"]["generation"]
        and status.get("updatedReplicas", 0) == wanted
        and status.get("readyReplicas", 0) == wanted
        and status.get("replicas", 0) == wanted
    )
