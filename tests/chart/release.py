"""A release of the chart on a control plane: helm makes its objects, and its pods run as processes."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.chart import helm
from tests.chart.pods import ROOT, RunningPod, run
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.controlplane.services import service_splitter
from tests.controlplane.splitter import BackEnd, Splitter

SYSTEM: Final = helm.NAMESPACE
READY_S: Final = 60.0
STOPS_WITHIN_S: Final = 40.0
PARTS: Final = ("reconciler", "webhook")


@dataclass
class Release:
    """`tree` has the chart and the programs, and may be an earlier commit's. Whoever starts it stops it."""

    cluster: ControlPlane
    values: JsonObject
    tree: Path = ROOT
    pods: list[RunningPod] = field(default_factory=list)
    service: Splitter | None = None
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def chart(self) -> Path:
        return self.tree / "deploy" / "chart"

    def helm(self, *arguments: str, values: JsonObject | None = None) -> str:
        where = ["--namespace", SYSTEM, "--kubeconfig", str(self.cluster.admin_kubeconfig), "--no-hooks"]
        given = ["--values", "-"] if values is not None else []
        return helm.helm(*arguments, *where, *given, stdin=json.dumps(values)).stdout

    def install(self) -> None:
        """Or upgrade to the chart of the tree."""
        self.helm("upgrade", "--install", "--create-namespace", helm.RELEASE, str(self.chart), values=self.values)

    # Processes

    def start(self) -> None:
        """Every replica of both Deployments, and what stands for kube-proxy."""
        for part in PARTS:
            if part == "webhook":
                # As the kubelet does: the volume is there when the Secret has both keys.
                until(self._has_certificate, READY_S, "the leader has made the certificate")
            for _ in range(self._deployment(part)["spec"]["replicas"]):
                self._start(part)
        back_ends = [_back_end(each) for each in self.of("webhook")]
        self.service = service_splitter(self.cluster, SYSTEM, "gpures-webhook", *back_ends).start()
        for each in self.pods:
            until(each.ready, READY_S, f"{each.child.name} ready: {each.child.tail(5)}")

    def roll(self) -> None:
        """Replace each pod as the Deployments' strategy says: a new one is ready before an old one goes."""
        for part in PARTS:
            strategy = self._deployment(part)["spec"]["strategy"]
            assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
            for old in self.of(part):
                new = self._start(part)
                until(new.ready, READY_S, f"{new.child.name} ready: {new.child.tail(5)}")
                if part == "webhook" and self.service is not None:
                    self.service.add(_back_end(new))
                    self.service.remove(_back_end(old))
                code = old.child.terminate(STOPS_WITHIN_S)
                self.pods.remove(old)
                # How an earlier commit's programs end is no longer ours to mend.
                earlier = old.tree != ROOT
                assert earlier or code == 0, f"{old.child.name} ended with {code}: {old.child.tail()}"

    def stop(self) -> None:
        for each in self.pods:
            each.child.kill()
        self.pods.clear()
        if self.service is not None:
            self.service.stop()

    def of(self, part: str) -> Sequence[RunningPod]:
        return [each for each in self.pods if f"gpures-{part}-" in each.child.name]

    @contextmanager
    def reconcilers_end_with_their_deployment(self) -> Iterator[None]:
        """As the kubelet does."""

        def end() -> None:
            until(
                lambda: self.cluster.admin.find("deployments.apps", "gpures-reconciler", SYSTEM) is None,
                READY_S,
                "the reconciler's Deployment is gone",
            )
            for each in self.of("reconciler"):
                each.child.terminate()

        with ThreadPoolExecutor(1) as pool:
            ending = pool.submit(end)
            yield
            ending.result()

    # Hooks

    def hook(self, kind: str, job: str, **also: str) -> tuple[int, str]:
        """Apply what belongs to a hook, run its Job as a process, take it all away again; exit code and log."""
        documents = [entry for entry in self._rendered() if helm.hook(entry) == kind]
        for entry in documents:
            if entry["kind"] != "Job":
                self.cluster.admin.apply(entry, field_manager="helm")
        spec = helm.one(documents, "Job", job)["spec"]["template"]["spec"]
        running = run(self.cluster, job, SYSTEM, spec, self.tree, **also)
        code = running.child.wait(120)
        for entry in documents:
            if entry["kind"] != "Job":
                self._delete(entry)
        return code, running.child.tail(50)

    def _rendered(self) -> Sequence[JsonObject]:
        return helm.render(self.values, chart=self.chart)

    def _deployment(self, part: str) -> JsonObject:
        return helm.one(self._rendered(), "Deployment", f"gpures-{part}")

    def _start(self, part: str) -> RunningPod:
        spec = self._deployment(part)["spec"]["template"]["spec"]
        pod = run(self.cluster, f"gpures-{part}-{next(self._numbers)}", SYSTEM, spec, self.tree)
        self.pods.append(pod)
        return pod

    def _has_certificate(self) -> bool:
        data = self.cluster.admin.get("secrets", "gpures-webhook-tls", SYSTEM).get("data", {})
        return {"tls.crt", "tls.key"} <= set(data)

    def _delete(self, entry: JsonObject) -> None:
        group, _, _ = entry["apiVersion"].rpartition("/")
        plural = f"{entry['kind'].lower()}s{'.' if group else ''}{group}"
        self.cluster.admin.delete(plural, entry["metadata"]["name"], entry["metadata"].get("namespace"))


def _back_end(pod: RunningPod) -> BackEnd:
    return BackEnd(pod.host, pod.port("https"))
