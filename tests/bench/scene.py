"""One class with nodes to spare on a real control plane, and what a benchmark does with it."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from common.domain import keys
from common.domain.time import format_instant
from tests.bench import plain_client, workers
from tests.bench.processes import cpu_s
from tests.controlplane.client import ApiError
from tests.controlplane.discovery import JsonObject
from tests.controlplane.nodes import GPU
from tests.controlplane.polling import until
from tests.controlplane.product import NAMESPACE, Product, Replica

CLASS = "bench"
USER = "bench@example.com"
ACCOUNT = "system:serviceaccount:gpures-system:gpures-"
RESERVATIONS = "gpureservations.gpures.dev"
NODES, GPUS = 4, 8192
DEADLINE_S = 60.0
HOUR = timedelta(hours=1)
QUIET_SHARE, QUIET_S, QUIET_DEADLINE_S = 0.25, 0.5, 30.0


@dataclass(eq=False)
class Scene:
    """`quick` means sizes that prove that everything works, not what it costs."""

    product: Product
    folder: Path
    name: str
    quick: bool
    say: Callable[[str], None]
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def __post_init__(self) -> None:
        self.cluster = self.product.control_plane
        self.admin = self.cluster.admin

    def furnish(self) -> None:
        """Nodes, the class, and a tenant who may edit everywhere; returns once all of it is known."""
        for number in range(NODES):
            self.cluster.nodes.add_gpu_node(f"bench-{number}", CLASS, GPUS)
        self.admin.create({"apiVersion": keys.API_VERSION, "kind": "GPUClass", "metadata": {"name": CLASS}, "spec": {}})
        rbac = "rbac.authorization.k8s.io"
        role = {"apiGroup": rbac, "kind": "ClusterRole", "name": "edit"}
        subject = {"apiGroup": rbac, "kind": "User", "name": USER}
        binding = {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "bench-edits"}}
        self.admin.create(binding | {"roleRef": role, "subjects": [subject]})
        self.tenant_file = self.cluster.kubeconfig_as_user(USER, ("system:authenticated",))
        self.tenant = self.admin.as_user(USER, ("system:authenticated",))
        until(self._counted, DEADLINE_S, f"units of class {CLASS} counted")
        until(self._may_book, DEADLINE_S, "the tenant may book")

    def several(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    # What tenants do

    def namespace(self) -> str:
        return self.cluster.create_namespace(f"bench-{next(self._numbers)}")

    def book(self, namespace: str, units: int, start: datetime | None = None, lasts: timedelta = HOUR) -> None:
        """Returns once the leader has promised; a window that is open now is known to every webhook then."""
        spec: JsonObject = {"gpuClass": CLASS, "units": units, "duration": f"{int(lasts.total_seconds())}s"}
        if start is not None:
            spec["start"] = format_instant(start)
        meta = {"name": "sprint", "namespace": namespace}
        self.tenant.create({"apiVersion": keys.API_VERSION, "kind": "GPUReservation", "metadata": meta, "spec": spec})
        wanted = "Active" if start is None else "Confirmed"
        until(lambda: self.phase(namespace) == wanted, DEADLINE_S, f"reservation in {namespace} {wanted}")
        if start is None:
            until(lambda: self._known_open(namespace), DEADLINE_S, f"every webhook lets pods of {namespace} in")

    def phase(self, namespace: str) -> str:
        return str(self.admin.get(RESERVATIONS, "sprint", namespace).get("status", {}).get("phase", ""))

    def create(self, namespace: str, count: int, in_flight: int) -> plain_client.Done:
        """Create pods as their tenant."""
        path = self.admin.path("pods", namespace)
        calls = [plain_client.Call("POST", path, json.dumps(pod(f"train-{n:04}"))) for n in range(count)]
        return workers.call(plain_client.Job(str(self.tenant_file), in_flight, calls))

    def running(self, namespace: str, count: int) -> None:
        def all_run() -> bool:
            found = self.admin.items("pods", namespace, fields="status.phase=Running")
            return len(found) >= count

        until(all_run, DEADLINE_S * 2, f"{count} pods of {namespace} run")

    def clear(self, namespace: str) -> None:
        """Take pods and reservation away, and return once nothing is busy with that any more."""
        now: JsonObject = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
        self.admin.request("DELETE", self.admin.path("pods", namespace), body=now)
        until(lambda: not self.admin.items("pods", namespace), DEADLINE_S, f"no pods in {namespace}")
        for found in self.admin.items(RESERVATIONS, namespace):
            self.admin.delete(RESERVATIONS, found["metadata"]["name"], namespace)
        self.settle()

    # How the machine is kept still

    def settle(self) -> None:
        """Wait until the control plane and we have little to do, but not for ever."""
        end = time.monotonic() + QUIET_DEADLINE_S
        while time.monotonic() < end:
            before = self._used()
            time.sleep(QUIET_S)
            if self._used() - before < QUIET_SHARE * QUIET_S:
                return
        self.say("the control plane does not come to rest; going on")

    def _used(self) -> float:
        return sum(cpu_s(child.pid) for child in self.cluster.children.values() if child.running)

    @contextmanager
    def frozen(self, name: str) -> Iterator[None]:
        """Stop one process of the control plane, or of ours, for a while."""
        child = self.cluster.children[name]
        child.freeze()
        try:
            yield
        finally:
            child.thaw()

    # Where we are

    @property
    def webhook(self) -> Replica:
        return self.product.webhooks[0]

    @property
    def reconciler(self) -> Replica:
        return self.product.reconcilers[0]

    def account_file(self, program: str) -> Path:
        """A kubeconfig that speaks as one of our processes."""
        return self.cluster.kubeconfig_for_service_account(NAMESPACE, f"gpures-{program}")

    @property
    def certificate(self) -> tuple[Path, Path, Path]:
        """Authority, certificate and key that the webhook serves with."""
        authority = self.cluster.directory / "bench-ca.crt"
        authority.write_bytes(self.product.ca_pem)
        environment = self.webhook.child.env
        return authority, Path(environment["GPURES_CERT_FILE"]), Path(environment["GPURES_KEY_FILE"])

    def _counted(self) -> bool:
        status = self.admin.get("gpuclasses.gpures.dev", CLASS).get("status") or {}
        return bool((status.get("units") or {}).get("physical") == NODES * GPUS)

    def _may_book(self) -> bool:
        try:
            self.tenant.list(RESERVATIONS, "default")
            self.tenant.list("pods", "default")
        except ApiError:
            return False
        return True

    def _known_open(self, namespace: str) -> bool:
        """Several dry runs at once reach every webhook."""

        def let_in(_: int) -> bool:
            stored = self.tenant.create(pod("probe"), namespace=namespace, dry_run=True).object
            return keys.CLAIM in stored["metadata"].get("annotations", {})

        with ThreadPoolExecutor(4) as pool:
            return all(pool.map(let_in, range(4)))


def pod(name: str) -> JsonObject:
    """As users send it; asks for one unit."""
    container = {"name": "main", "image": "example.invalid/train", "resources": {"limits": {GPU: "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {keys.CLASS_LABEL: CLASS}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


def next_second(ahead_s: float) -> datetime:
    """Windows open at whole seconds: instants are stored without fractions."""
    return (datetime.now(UTC) + timedelta(seconds=ahead_s)).replace(microsecond=0) + timedelta(seconds=1)


def sleep_until(instant: datetime) -> None:
    """Bounded by the instant: the one thing that a benchmark of windows has to wait for."""
    left = (instant - datetime.now(UTC)).total_seconds()
    if left > 0:
        time.sleep(left)


def in_turns(names: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """A B A B …; every other round backwards, so that nobody always goes first."""
    for number in range(rounds):
        for name in names if number % 2 == 0 else reversed(names):
            yield number, name
