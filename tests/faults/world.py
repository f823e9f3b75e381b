"""What every fault breaks: two webhooks and two reconcilers behind a fault proxy each, tenants, and open windows."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from aiohttp import ClientError, web

from common.domain import keys
from tests.controlplane.api_proxy import ApiProxy
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.fault_splitter import GOOD, FaultLane, Mode
from tests.controlplane.polling import until
from tests.controlplane.processes import Child
from tests.controlplane.product import Product
from tests.controlplane.splitter import BackEnd
from tests.e2e import reading
from tests.e2e.leaders import Candidate
from tests.e2e.stage import Stage, Tenant
from tests.faults.auditor import Auditor
from tests.faults.timing import lasts, monotonic

NODES: Final = (16, 16)
BASE_UNITS: Final = 4
BASE: Final = "base"
DEADLINE_S: Final = 90.0
ENVIRONMENT: Final = {
    # As tests/e2e: on a machine that others use as well, a claim may take longer than the 2 s that ship.
    "GPURES_CLAIM_DEADLINE": "4s",
    # The programs of this tree, wherever it lies.
    "PYTHONPATH": str(Path(__file__).resolve().parents[2]),
}


class Way(ApiProxy):
    """When there is nobody behind it, it cuts the connection, as a port does on which nobody listens."""

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            return await super()._serve(request)
        except ClientError:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()


class World:
    """Context manager. `brief`: faults last for seconds, as `make test` needs it, and not for as long as they might."""

    def __init__(self, control_plane: ControlPlane, *, brief: bool) -> None:
        self.cluster = control_plane
        self.admin = control_plane.admin
        self.brief = brief
        self.slower = 1.0
        """By how much the load is less than it might be."""
        self.webhooks: list[Candidate] = []
        self.reconcilers: list[Candidate] = []
        self.resting = threading.Event()
        """Set: the load sends nothing that concerns us."""
        self._runs = itertools.count(1)

    def __enter__(self) -> Self:
        names = [f"{program}-{number}" for program in ("webhook", "reconciler") for number in range(2)]
        with ExitStack() as stack:
            # The ways outlive those who use them.
            ways = {name: stack.enter_context(Way(self.cluster, f"faults-{name}")) for name in names}
            self.product = stack.enter_context(
                Product(self.cluster, webhook_count=0, reconciler_count=0, environment=dict(ENVIRONMENT))
            )
            added = [self._add(name, way) for name, way in ways.items()]
            self.webhooks, self.reconcilers = added[:2], added[2:]
            self.product.wait_ready()
            self.stage = Stage(self.product).open(*NODES)
            stack.callback(self.stage.close)
            self.alice, self.bob = self.stage.tenant("alice"), self.stage.tenant("bob")
            self.base()
            self.auditor = stack.enter_context(Auditor(self.admin, self.stage.gpu_class, sum(NODES), self.stage.nodes))
            if self.product.hold:
                until(self._held_by_policy, DEADLINE_S, "the hold policy knows the class")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def tenants(self) -> Sequence[Tenant]:
        return (self.alice, self.bob)

    @property
    def ours(self) -> Sequence[Candidate]:
        return (*self.webhooks, *self.reconcilers)

    def base(self) -> None:
        """Each tenant has a window that is always open."""
        for tenant in self.tenants:
            tenant.hold_open(BASE, BASE_UNITS, duration=timedelta(hours=12))

    def number(self) -> int:
        return next(self._runs)

    def lasts(self, full_s: float, brief_s: float) -> None:
        lasts(brief_s if self.brief else full_s)

    # Who leads

    def leader(self) -> Candidate:
        return until(
            lambda: next((each for each in self.reconcilers if each.leads()), None), DEADLINE_S, "a reconciler leads"
        )

    def other(self, than: Candidate) -> Candidate:
        return next(each for each in self.reconcilers if each is not than)

    def takes_over(self, second: Candidate, since_s: float) -> float:
        """Seconds until the second leads."""
        until(second.leads, DEADLINE_S, f"{second.replica.child.name} leads")
        return monotonic() - since_s

    # Ways to the webhooks

    @contextmanager
    def lanes(self) -> Iterator[Sequence[FaultLane]]:
        """The Service sends to the webhooks through a lane each."""
        service = self.product.service
        real = [BackEnd("127.0.0.1", each.replica.port) for each in self.webhooks]
        with ExitStack() as stack:
            lanes = [stack.enter_context(FaultLane(back_end)) for back_end in real]
            for lane in lanes:
                service.add(lane.back_end)
            for back_end in real:
                service.remove(back_end, cut=True)
            try:
                yield lanes
            finally:
                for back_end in real:
                    service.add(back_end)
                for lane in lanes:
                    service.remove(lane.back_end, cut=True)

    @contextmanager
    def bad_ways(self, mode: Mode) -> Iterator[None]:
        """Every way to a webhook is bad, until the block ends."""
        with self.lanes() as lanes:
            for lane in lanes:
                lane.mode = mode
                lane.cut()
            try:
                yield
            finally:
                for lane in lanes:
                    lane.mode = GOOD
                    lane.cut()

    # Health

    def part(self, name: str) -> Child:
        return self.cluster.children[name]

    def heal(self, *, anew: bool) -> None:
        """Everything runs, and nothing is in its way; `anew`: what runs is not to be trusted any more."""
        for child in self.cluster.children.values():
            child.thaw()
        for each in self.ours:
            each.proxy.clear()
            each.proxy.date_shift *= 0
            if anew:
                each.replica.child.kill()
            if not each.replica.child.running:
                each.replica.child.start()
        self.product.wait_ready()

    def _add(self, name: str, way: Way) -> Candidate:
        if name.startswith("webhook"):
            self.product.webhook_api = way
            return Candidate(self.product.add_webhook(), way)
        self.product.reconciler_api = way
        return Candidate(self.product.add_reconciler(), way)

    def _held_by_policy(self) -> bool:
        """What names no reservation that is there can only be held, by the webhook if not by the policy."""
        probe = self.alice.manifest("probe", annotations={keys.USE_RESERVATION: "none"})
        return reading.held(self.admin.create(probe, dry_run=True).object)
