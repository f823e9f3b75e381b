"""What goes on during every fault: tenants' pods, windows that open and close, a canary, and somebody who forges."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Final, Self

import httpx

from common.domain import keys
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.discovery import JsonObject
from tests.e2e.stage import RESERVATIONS, Tenant
from tests.faults.facts import ROLE
from tests.faults.timing import monotonic, wall, whole_second
from tests.faults.world import World

TICK_S: Final = 0.1
POD_EVERY_S, WINDOW_EVERY_S = 0.5, 3.0
WINDOW: Final = timedelta(seconds=9)
AHEAD: Final = timedelta(seconds=2)
RUNS_FOR_S: Final = 2.0
MOST_PODS: Final = 8
ENOUGH_S: Final = 40.0
STOP_WITHIN_S: Final = 70.0
Unreached = httpx.HTTPError


@dataclass(frozen=True)
class Sample:
    """One create: how long it took, what refused it, and whether an answer came at all."""

    what: str
    at: datetime
    took_s: float
    refusal: str = ""
    cut: bool = False


@dataclass
class Tally:
    """What became of the creates of one kind."""

    samples: list[Sample] = field(default_factory=list)

    def note(self, what: str, work: Callable[[], object]) -> bool:
        """Whether it succeeded."""
        at, began = wall(), monotonic()
        refusal, cut = "", False
        try:
            work()
        except ApiError as error:
            refusal = f"{error.code} {error.message}"
        except Unreached as error:
            refusal, cut = repr(error), True
        self.samples.append(Sample(what, at, monotonic() - began, refusal, cut))
        return not refusal

    @property
    def refused(self) -> Sequence[Sample]:
        return [sample for sample in self.samples if sample.refusal and not sample.cut]

    @property
    def cut(self) -> Sequence[Sample]:
        return [sample for sample in self.samples if sample.cut]

    @property
    def accepted(self) -> Sequence[Sample]:
        return [sample for sample in self.samples if not sample.refusal]

    @property
    def worst_s(self) -> float:
        return max((sample.took_s for sample in self.accepted), default=0.0)


@dataclass(frozen=True)
class Window:
    tenant: Tenant
    name: str
    start: datetime
    pods: Sequence[str]


class Traffic:
    """Context manager; everything that it made is gone afterwards, as far as it can be reached."""

    def __init__(self, world: World, tag: str) -> None:
        self.world = world
        self.tag = tag
        self.canary, self.attacks, self.pods, self.bookings = Tally(), Tally(), Tally(), Tally()
        self.windows: list[Window] = []
        self.missed = 0
        """Pods whose window went by without them."""
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        slower = self.world.slower
        self._start(self._canary, 2 * TICK_S * slower, 2)
        self._start(self._attacker, 3 * TICK_S * slower, 3)
        for tenant in self.world.tenants:
            self._start(self._tenant(tenant), POD_EVERY_S * slower, 1)
        self._start(self._windows, WINDOW_EVERY_S * slower, 1)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(STOP_WITHIN_S)

    def clear_up(self) -> None:
        """Take every pod of the tenants away."""
        for tenant in self.world.tenants:
            self.world.auditor.ends(self.world.auditor.pods(tenant.namespace))
            path = f"/api/v1/namespaces/{tenant.namespace}/pods"
            self.world.admin.request("DELETE", path, body={"gracePeriodSeconds": 0})

    def _start(self, step: Callable[[int], None], every_s: float, threads: int) -> None:
        numbers = itertools.count(1)

        def work() -> None:
            while not self._stopping.wait(every_s):
                step(next(numbers))

        self._threads += [threading.Thread(target=work, name=self.tag, daemon=True) for _ in range(threads)]

    # Somebody who has nothing to do with us

    def _canary(self, number: int) -> None:
        namespace, name = self.world.bob.namespace, f"canary-{self.tag}-{number}"
        # Only that it is stored matters; no kubelet shall have work with it.
        spec = {"nodeSelector": {"faults.test/nowhere": "here"}}
        manifest = self.world.bob.manifest(name, gpus=0, gpu_class="", labels={ROLE: "canary"}, spec=spec)
        client = self.world.bob.client
        if self.canary.note(name, lambda: _create(client, manifest)):
            _delete(client, namespace, name)

    # Somebody who forges

    def _attacker(self, number: int) -> None:
        tenant = self.world.alice
        if self.world.resting.is_set():
            return
        token = next((pod.token for pod in self.world.auditor.pods(tenant.namespace) if pod.token), "1764582000-1-a")
        exact = {"key": keys.TAINT, "value": self.world.stage.gpu_class, "effect": "NoSchedule"}
        claim = {keys.CLAIM: token}
        ways: Sequence[dict[str, Any]] = (
            {"spec": {"tolerations": [exact]}},
            {"spec": {"tolerations": [{"key": keys.TAINT, "operator": "Exists"}]}},
            {"spec": {"tolerations": [{"operator": "Exists"}]}},
            {"annotations": claim},
            {"annotations": claim, "spec": {"tolerations": [exact]}},
        )
        name = f"forged-{self.tag}-{number}"
        manifest = tenant.manifest(name, labels={ROLE: "attacker"}, **ways[number % len(ways)])
        if self.attacks.note(f"pod {name}", lambda: _create(tenant.client, manifest)):
            _delete(tenant.client, tenant.namespace, name)
        if number % len(ways) == 0:
            self._opens_a_gate(tenant)

    def _opens_a_gate(self, tenant: Tenant) -> None:
        """As a user may try who has patience and edit rights."""
        held = next((pod for pod in self.world.auditor.pods(tenant.namespace) if pod.gated and not pod.leaving), None)
        if held is None:
            return
        body = [{"op": "remove", "path": "/spec/schedulingGates"}]
        path = f"/api/v1/namespaces/{tenant.namespace}/pods/{held.name}"
        kind = "application/json-patch+json"
        self.attacks.note(
            f"gate off {tenant.namespace}/{held.name}",
            lambda: tenant.client.request("PATCH", path, body=body, content_type=kind),
        )

    # Tenants

    def _tenant(self, tenant: Tenant) -> Callable[[int], None]:
        def step(number: int) -> None:
            self._reap(tenant)
            if self.world.resting.is_set():
                return
            mine = [pod for pod in self.world.auditor.pods(tenant.namespace) if pod.role == "normal"]
            if len(mine) < MOST_PODS:
                manifest = tenant.manifest(f"pod-{self.tag}-{number}", labels={ROLE: "normal"})
                self.pods.note(manifest["metadata"]["name"], lambda: _create(tenant.client, manifest))

        return step

    def _reap(self, tenant: Tenant) -> None:
        """Pods that have run for a while are done; those whose window went by without them give up."""
        auditor = self.world.auditor
        late = {name for window in self.windows if wall() > window.start + WINDOW + AHEAD for name in window.pods}
        for pod in auditor.pods(tenant.namespace):
            gives_up = pod.name in late and not pod.let_in
            if pod.role in ("normal", "window") and (gives_up or auditor.running_for(pod) > RUNS_FOR_S):
                self.missed += gives_up
                auditor.ends([pod])
                _delete(tenant.client, tenant.namespace, pod.name)

    def _windows(self, number: int) -> None:
        if self.world.resting.is_set():
            return
        tenant = self.world.tenants[number % 2]
        name = f"{self.tag}-{number}"
        start = whole_second(wall() + AHEAD)
        booked = self.bookings.note(
            name,
            lambda: tenant.book(name, 2, start=start, duration=WINDOW),
        )
        if not booked:
            return
        names = [f"window-{name}-{each}" for each in range(2)]
        self.windows.append(Window(tenant, name, start, names))
        for each in names:
            annotations = {keys.USE_RESERVATION: name}
            manifest = tenant.manifest(each, labels={ROLE: "window"}, annotations=annotations)
            self.pods.note(each, lambda manifest=manifest: _create(tenant.client, manifest))  # type: ignore[misc]


def _create(client: ApiClient, manifest: JsonObject) -> None:
    path = f"/api/v1/namespaces/{manifest['metadata']['namespace']}/pods"
    client.request("POST", path, body=manifest, timeout_s=ENOUGH_S)


def _delete(client: ApiClient, namespace: str, name: str) -> None:
    try:
        path = f"/api/v1/namespaces/{namespace}/pods/{name}"
        client.request("DELETE", path, body={"gracePeriodSeconds": 0}, timeout_s=ENOUGH_S)
    except (ApiError, Unreached):
        return


def cancel(tenant: Tenant, name: str) -> None:
    tenant.admin.patch(RESERVATIONS, name, {"spec": {"cancel": True}}, tenant.namespace)
