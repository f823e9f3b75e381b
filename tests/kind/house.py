"""What `make demo CLUSTER=kind` is told in: image and chart on a cluster of kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Self

from tests.controlplane.audit import AuditEvent
from tests.controlplane.discovery import JsonObject
from tests.controlplane.nodes import TAINT
from tests.demo import cast
from tests.demo.house import History, Refused, Say
from tests.kind.cluster import KindCluster
from tests.kind.installation import Installation
from tests.kind.preparing import prepared
from tests.kind.stage import runnable
from tests.kind.watched import written

TOLERANT = [
    f"{part}.tolerations[0].{of}" for part in ("webhook", "reconciler") for of in (f"key={TAINT}", "operator=Exists")
]
"""Each node of two plays a GPU node: as on every cluster without another node, the product has to tolerate that."""


class KindHouse:
    """Installs and uninstalls; a cluster that was given is left as it was."""

    unproved = "in whose name something was written is only in the API server's audit log, which kind keeps to itself"

    def __init__(self, say: Say) -> None:
        self._say = say
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._say("building and loading the images")
            ready = stack.enter_context(prepared())
            self.cluster = stack.enter_context(KindCluster(ready.kubeconfig))
            self._release = Installation(self.cluster, ready.image)
            self._say(f"installing deploy/chart on kind cluster {ready.name}, Kubernetes {self.cluster.version()}")
            stack.callback(self._release.leave)
            self._release.install(*TOLERANT)
            stack.callback(self.cluster.remove_namespaces, list(cast.USERS))
            stack.callback(self.cluster.remove_classes, list(cast.CLASSES))
            stack.callback(self.cluster.nodes.undress)
            for gpu_class in cast.CLASSES:
                gpus = cast.gpus_of(gpu_class)
                node = self.cluster.nodes.add_gpu_node("", gpu_class, gpus)
                self._say(f"{node} gets {gpus} {gpu_class}")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def parts(self) -> Sequence[tuple[str, bool]]:
        found = [
            (str(pod["metadata"]["name"]), pod["status"].get("phase") == "Running") for pod in self._release.pods()
        ]
        return sorted(found)

    @contextmanager
    def webhooks_away(self, say: Say) -> Iterator[None]:
        self._release.scale("gpures-webhook", 0)
        say("kubectl scale deployment gpures-webhook --replicas=0")
        try:
            yield
        finally:
            self._release.scale("gpures-webhook", 2)
        say("both webhooks run again")

    def leader(self) -> str:
        return self._release.leader()

    def kill_leader(self, name: str, say: Say) -> None:
        # Frozen first: otherwise it hears of its end from the kubelet, and gives up its lease.
        self._release.freeze(name)
        self._release.kill_pod(name)
        say(f"kill -STOP, and kubectl delete pod {name} --grace-period=0 --force, which leads")

    def replace_leader(self, name: str, say: Say) -> None:
        self._release.wait_ready("gpures-reconciler")
        say(f"its Deployment has put another pod in the place of {name}, to stand by")

    def wearable(self, pod: JsonObject) -> JsonObject:
        pod["spec"]["restartPolicy"] = "Never"
        return runnable(pod)

    def audit(self, history: History, refused: Refused) -> Sequence[AuditEvent]:
        return written(history, refused)

    def keeps_logs(self) -> str:
        return "KEEP=1 leaves the cluster and the release standing, with their logs"
