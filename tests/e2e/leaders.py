"""Two reconcilers, each behind a fault proxy of its own, so that a test can break whichever leads at a chosen write."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Self

import pytest

from tests.controlplane.api_proxy import ApiProxy
from tests.controlplane.polling import until
from tests.controlplane.product import Product, Replica
from tests.controlplane.proxy_rules import DROP, Exchange, Gate, When, calling, holding, in_turn

LEASE = {"GPURES_LEASE_DURATION": "2s", "GPURES_LEASE_RENEW": "1500ms", "GPURES_LEASE_RETRY": "500ms"}
"""Half of what ships: a successor is there sooner, and the tests are about what it does then."""
DEADLINE_S = 30.0
NOISE = re.compile("/leases|/events")


@dataclass(frozen=True)
class Write:
    """A write of the reconciler, as a proxy recognises it."""

    path: str
    body: str
    method: str = "PATCH"


RESERVATION, CLASS, POD = r"/gpureservations/[^/]+/status$", r"/gpuclasses/[^/]+/status$", r"/pods/[^/]+$"
ANNOUNCE = Write(RESERVATION, '"phase":"Confirming"')
SWAP = Write(CLASS, "/status/confirmations")
CONFIRM = Write(RESERVATION, '"phase":"Confirmed"')
DENY = Write(RESERVATION, '"phase":"Denied"')
APPLY = Write(RESERVATION, '"Applied","status":"(True|False)"')
CLAIM = Write(RESERVATION, '"op":"add","path":"/status/claims/')
DROP_CLAIM = Write(RESERVATION, '"op":"remove","path":"/status/claims/')
OPEN = Write(POD, "schedulingGates")


@dataclass(eq=False)
class Candidate:
    """One reconciler and its way to the API server."""

    replica: Replica
    proxy: ApiProxy

    def leads(self) -> bool:
        return self.replica.child.running and "\ngpures_leader 1.0" in self.replica.metrics()

    def writes(self) -> Sequence[Exchange]:
        """What it wrote about our objects and pods, in the order of sending; not its lease, not Events."""
        return [exchange for exchange in self.proxy.writes() if not NOISE.search(exchange.path)]

    def dies_at(self, write: Write, when: When, nth: int = 1) -> None:
        """SIGKILL as that write leaves it (nothing is stored), or before the answer comes back (it is)."""
        action = calling(self.replica.child.kill, then=DROP)
        self.proxy.rule(action, method=write.method, path=write.path, body=write.body, nth=nth, when=when)

    def freezes_at(self, write: Write, when: When = "before", nth: int = 1) -> Gate:
        """SIGSTOP with that write under way in the network until the gate is opened, or stored but not answered."""
        gate = Gate()
        action = in_turn(calling(self.replica.child.freeze), holding(gate))
        self.proxy.rule(action, method=write.method, path=write.path, body=write.body, nth=nth, when=when)
        return gate

    def is_held_up_at(self, write: Write, nth: int = 1) -> Gate:
        """That write lies in the network until the gate is opened, though its sender has long given up on it."""
        gate = Gate()
        self.proxy.rule(holding(gate), method=write.method, path=write.path, body=write.body, nth=nth)
        return gate


class Leaders:
    """A leader and its successor; whoever died or was frozen is made whole for the next test."""

    def __init__(self, product: Product) -> None:
        self._product = product
        self._stack = ExitStack()

    def start(self) -> Self:
        self.candidates = [self._add(number) for number in range(2)]
        return self

    def stop(self) -> None:
        for candidate in self.candidates:
            candidate.replica.child.thaw()
            candidate.proxy.clear()
            candidate.replica.child.terminate()
            self._product.reconcilers.remove(candidate.replica)
        self._stack.close()

    def renew(self) -> None:
        for candidate in self.candidates:
            candidate.proxy.clear()
            candidate.proxy.date_shift *= 0
            candidate.replica.child.thaw()
            if not candidate.replica.child.running:
                candidate.replica.child.start()
        for candidate in self.candidates:
            until(candidate.replica.ready, DEADLINE_S, f"{candidate.replica.child.name} ready")
        self.leading()

    def leading(self) -> Candidate:
        """The one that leads, once one does."""
        return until(
            lambda: next((candidate for candidate in self.candidates if candidate.leads()), None),
            DEADLINE_S,
            "a reconciler leads",
        )

    def other(self, than: Candidate) -> Candidate:
        return next(candidate for candidate in self.candidates if candidate is not than)

    def succeeded(self, first: Candidate) -> Candidate:
        """The successor, once it leads."""
        second = self.other(first)
        until(second.leads, DEADLINE_S, f"{second.replica.child.name} leads")
        return second

    def _add(self, number: int) -> Candidate:
        proxy = self._stack.enter_context(ApiProxy(self._product.control_plane, f"reconciler-proxy-{number}"))
        before = self._product.reconciler_api, dict(self._product.environment)
        self._product.reconciler_api = proxy
        self._product.environment |= LEASE
        try:
            return Candidate(self._product.add_reconciler(), proxy)
        finally:
            self._product.reconciler_api, self._product.environment = before


@contextmanager
def in_place_of_its_reconcilers(product: Product) -> Iterator[Leaders]:
    """The product's own reconcilers rest meanwhile: there is one lease."""
    resting = list(product.reconcilers)
    for replica in resting:
        replica.child.terminate()
    leaders = Leaders(product).start()
    try:
        leaders.renew()
        yield leaders
    finally:
        leaders.stop()
        for replica in resting:
            replica.child.start()
        product.wait_ready()


@pytest.fixture(scope="module", name="pair")
def two_reconcilers(product: Product) -> Iterator[Leaders]:
    with in_place_of_its_reconcilers(product) as leaders:
        yield leaders


@pytest.fixture(name="leaders")
def untouched_reconcilers(pair: Leaders) -> Iterator[Leaders]:
    """Both run and neither has been tampered with."""
    pair.renew()
    yield pair
    pair.renew()
