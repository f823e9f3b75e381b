"""One test's own corner of a cluster: a class with nodes of its own, and tenants with the shipped roles."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any, TypeVar

from common.domain import keys
from tests.controlplane.audit import AuditLog
from tests.controlplane.client import ApiClient, ApiError, Reply
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.controlplane.product import Product
from tests.e2e import reading
from tests.support.manifests import a_class, a_pod, a_reservation, sent

CLASSES = "gpuclasses.gpures.dev"
RESERVATIONS = "gpureservations.gpures.dev"
DEADLINE_S = 20.0
AT_ONCE = 50
PROBES = 8
NOT_FOUND = 404

T = TypeVar("T")
_numbers = itertools.count(1)


class Tenant:
    """A user who may edit one namespace, as the shipped roles have it."""

    def __init__(self, stage: Stage, user: str) -> None:
        self.stage = stage
        self.user = f"{user}@example.com"
        self.admin = stage.admin
        self.namespace = stage.cluster.unique_namespace(user)
        self.client = self.log_in(self.user, "edit")

    def log_in(self, user: str, role: str) -> ApiClient:
        """A user with one of the cluster's roles here, once the API server knows that."""
        self.admin.create(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "RoleBinding",
                "metadata": {"generateName": f"{role}-", "namespace": self.namespace},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
            }
        )
        client = self.admin.as_user(user, ["system:authenticated"])
        until(lambda: self._may_list(client), DEADLINE_S, f"{user} has the role {role}")
        return client

    def _may_list(self, client: ApiClient) -> bool:
        try:
            client.list(RESERVATIONS, self.namespace)
            client.list("pods", self.namespace)
        except ApiError:
            return False
        return True

    # Reservations

    def book(
        self,
        name: str = "sprint",
        units: int = 1,
        *,
        duration: timedelta | None = timedelta(hours=1),
        start: datetime | None = None,
        dry_run: bool = False,
        **spec: Any,
    ) -> Reply:
        wanted = {
            "gpuClass": self.stage.gpu_class,
            "units": units,
            "duration": None if duration is None else f"{int(duration.total_seconds())}s",
            "start": None if start is None else reading.on_the_wire(start),
        } | spec
        given: JsonObject = {field: value for field, value in wanted.items() if value is not None}
        return self.client.create(sent(a_reservation(name, self.namespace, **given)), dry_run=dry_run)

    def would_refuse(self, name: str, units: int = 1, **spec: Any) -> bool:
        """Whether several dry runs at once, which reach every webhook replica, are all refused."""

        def refused(_: int) -> bool:
            try:
                self.book(name, units, dry_run=True, **spec)
            except ApiError:
                return True
            return False

        return all(at_once(refused, range(PROBES), threads=PROBES))

    def hold_open(self, name: str = "sprint", units: int = 1, **spec: Any) -> JsonObject:
        """Book, and return once every part of the product knows that the window is open."""
        self.book(name, units, **spec)
        self.reaches(name, "Active")
        self._known(name, reading.let_in)
        return self.reservation(name)

    def book_ahead(self, name: str, units: int, start: datetime, **spec: Any) -> JsonObject:
        """Book, and return once every part of the product knows that the window opens later."""
        self.book(name, units, start=start, **spec)
        self.reaches(name, "Confirmed")
        self._known(name, lambda pod: reading.reason(pod) == "WaitingForReservation")
        return self.reservation(name)

    def reservation(self, name: str = "sprint") -> JsonObject:
        return self.admin.get(RESERVATIONS, name, self.namespace)

    def reaches(self, name: str, phase: str, deadline_s: float = DEADLINE_S) -> None:
        until(lambda: reading.phase(self.reservation(name)) == phase, deadline_s, f"reservation {name} {phase}")

    def _known(self, name: str, answer: Callable[[JsonObject], bool]) -> None:
        """Several dry runs at once reach every webhook replica, if there is one."""
        probe = self.manifest("probe", annotations={keys.USE_RESERVATION: name})
        if not self.stage.has_webhooks():
            return
        until(
            lambda: all(
                answer(reply.object)
                for reply in at_once(lambda _: self.admin.create(probe, dry_run=True), range(PROBES), threads=PROBES)
            ),
            DEADLINE_S,
            f"every webhook knows reservation {name}",
        )

    def names_users(self, name: str, pods: Sequence[str]) -> None:
        """Wait until the reservation, and what webhooks say of it, names its pods."""
        until(lambda: self._users(name) == list(pods), DEADLINE_S, f"{name} names its users")
        self._known(name, lambda pod: all(user in reading.sentence(pod) for user in pods))

    def _users(self, name: str) -> Sequence[str]:
        found: Sequence[str] = self.reservation(name)["status"].get("usedBy", [])
        return found

    def forgets(self, name: str) -> None:
        """Delete a reservation, and return once every webhook knows that it is gone."""
        self.client.delete(RESERVATIONS, name, self.namespace)
        self._known(name, lambda pod: reading.reason(pod) == "ReservationNotFound")

    # Pods

    def manifest(self, name: str, gpus: int = 1, **fields: Any) -> JsonObject:
        """A pod of the stage's class as users send it; `spec`, `labels` and `annotations` are laid over it."""
        fields["spec"] = {"terminationGracePeriodSeconds": 1} | fields.get("spec", {})
        return sent(a_pod(name, self.namespace, gpus=gpus, **({"gpu_class": self.stage.gpu_class} | fields)))

    def create_pod(self, name: str, gpus: int = 1, *, dry_run: bool = False, **fields: Any) -> Reply:
        return self.client.create(self.manifest(name, gpus, **fields), dry_run=dry_run)

    def pod(self, name: str) -> JsonObject:
        return self.admin.get("pods", name, self.namespace)

    def pods(self, labels: str = "") -> Sequence[JsonObject]:
        return self.admin.items("pods", self.namespace, labels=labels)

    def runs(self, name: str, deadline_s: float = DEADLINE_S) -> JsonObject:
        """Wait until it runs on a node of the class."""

        def running() -> JsonObject | None:
            pod = self.pod(name)
            return pod if reading.phase(pod) == "Running" else None

        pod = until(running, deadline_s, f"pod {name} runs")
        assert reading.node(pod) in self.stage.nodes
        return pod

    def waits_for(self, name: str, reason: str, deadline_s: float = DEADLINE_S) -> JsonObject:
        """Wait until annotation and condition say that the pod is held for this reason."""

        def told() -> JsonObject | None:
            pod = self.pod(name)
            same = reading.reason(pod) == reading.condition(pod).get("reason") == reason
            return pod if same else None

        return until(told, deadline_s, f"pod {name} is told {reason}")

    def events(self, kind: str, name: str, reason: str = "") -> Sequence[JsonObject]:
        """Events of ours about one object."""
        selector = f"involvedObject.kind={kind},involvedObject.name={name}"
        found = self.admin.items("events", self.namespace, fields=selector)
        ours = [event for event in found if event["reportingComponent"] == "gpures.dev/reconciler"]
        return [event for event in ours if not reason or event["reason"] == reason]

    def event(self, kind: str, name: str, reason: str) -> JsonObject:
        """The only Event of that reason, once it is there."""
        found = until(lambda: self.events(kind, name, reason), DEADLINE_S, f"Event {reason} about {kind} {name}")
        assert len(found) == 1, found
        assert not found[0].get("series"), found
        return found[0]


class Stage:
    """Nothing is there before `open`; `close` takes everything away without waiting for it."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.cluster = product.control_plane
        self.admin = self.cluster.admin
        self.gpu_class = f"h100-{next(_numbers)}"
        self.nodes: list[str] = []
        self.tenants: list[Tenant] = []
        self.classes: list[str] = []

    def open(self, *gpus: int, **spec: Any) -> Stage:
        """The class, with one node for each number of GPUs; returns once it is counted."""
        for amount in gpus:
            self.add_node(amount)
        self.add_class(self.gpu_class, **spec)
        until(lambda: self.units().get("physical") == sum(gpus), DEADLINE_S, f"{self.gpu_class} is counted")
        return self

    def add_class(self, name: str, **spec: Any) -> str:
        self.admin.create(sent(a_class(name, **spec)))
        self.classes.append(name)
        return name

    def limit(self, limits: dict[str, Any]) -> None:
        self.admin.patch(CLASSES, self.gpu_class, {"spec": {"limits": limits}})

    def add_node(self, gpus: int, *, taint: bool = True, gpu_class: str = "") -> str:
        """A node of the stage's class, unless another one is named."""
        name = f"{self.gpu_class}-node-{len(self.nodes)}"
        self.nodes.append(self.cluster.nodes.add_gpu_node(name, gpu_class or self.gpu_class, gpus, taint=taint))
        return self.nodes[-1]

    def units(self) -> JsonObject:
        found: JsonObject = self.admin.get(CLASSES, self.gpu_class).get("status", {}).get("units", {})
        return found

    def tenant(self, user: str = "alice") -> Tenant:
        tenant = Tenant(self, user)
        self.tenants.append(tenant)
        return tenant

    def add_plain_node(self) -> str:
        """A node without GPUs and without a taint."""
        self.nodes.append(self.cluster.nodes.add_cpu_node(f"{self.gpu_class}-node-{len(self.nodes)}"))
        return self.nodes[-1]

    @property
    def audit(self) -> AuditLog | None:
        """What the API server wrote down, where that can be read."""
        return self.cluster.audit

    def has_webhooks(self) -> bool:
        return any(replica.child.running for replica in self.product.webhooks)

    def now(self) -> datetime:
        """The API server's clock, to the second."""
        probe = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "clock-"}}
        return reading.instant(self.admin.create(probe, dry_run=True).object["metadata"]["creationTimestamp"])

    def close(self) -> None:
        for tenant in self.tenants:
            self._delete("namespaces", tenant.namespace)
        for name in self.classes:
            self._delete(CLASSES, name)
        for node in self.nodes:
            self._delete("nodes", node)

    def _delete(self, key: str, name: str) -> None:
        try:
            self.admin.delete(key, name)
        except ApiError as error:
            if error.code != NOT_FOUND:
                raise


def at_once(work: Callable[[int], T], numbers: Sequence[int], threads: int = AT_ONCE) -> Sequence[T]:
    """Do something for each number, all at the same time."""
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, numbers))


def refusal(work: Callable[[], object]) -> ApiError:
    """The error with which the API server refuses."""
    try:
        done = work()
    except ApiError as error:
        return error
    message = f"was not refused: {done!r}"
    raise AssertionError(message)
