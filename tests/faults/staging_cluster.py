"""How what we rely on is broken: scheduler and nodes; and a day on which everything opens at once."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from common.domain import keys
from tests.controlplane.polling import until
from tests.e2e.stage import Tenant, at_once
from tests.faults.facts import ROLE
from tests.faults.timing import monotonic, wall, whole_second
from tests.faults.traffic import cancel
from tests.faults.world import World

CROWD = 100
AHEAD = timedelta(seconds=45)
DEADLINE_S = 180.0


def scheduler_down(world: World) -> Sequence[str]:
    world.part("kube-scheduler").freeze()
    world.lasts(15, 7)
    world.part("kube-scheduler").thaw()
    return ()


def node_vanishes(world: World) -> Sequence[str]:
    """Its pods end with it: who ran there has lost what no reservation can give back."""
    there = [pod for tenant in world.tenants for pod in world.auditor.pods(tenant.namespace) if pod.node]
    name = there[0].node if there else world.stage.nodes[0]
    gone = [pod for pod in there if pod.node == name]
    world.auditor.ends(gone)
    world.cluster.nodes.remove(name)
    world.auditor.ends(
        [pod for tenant in world.tenants for pod in world.auditor.pods(tenant.namespace) if pod.node == name]
    )
    world.lasts(10, 5)
    world.cluster.nodes.add_gpu_node(name, world.stage.gpu_class, 16)
    return [f"{len(gone)} pods were on the node"]


def all_at_once(world: World) -> Sequence[str]:
    """A hundred pods a tenant, whose windows open in the same second, on a node that comes for them."""
    name = f"crowd-{world.number()}"
    node = world.stage.add_node(2 * CROWD)
    world.auditor.nodes |= {node}
    world.auditor.rules.capacity += 2 * CROWD
    until(lambda: world.stage.units().get("physical", 0) >= 2 * CROWD, DEADLINE_S, "the node is counted")
    soon = whole_second(wall() + AHEAD)
    for tenant in world.tenants:
        tenant.book(name, CROWD, start=soon, duration=timedelta(minutes=5))
        tenant.reaches(name, "Confirmed", DEADLINE_S)

        def create(number: int, one: Tenant = tenant) -> None:
            annotations = {keys.USE_RESERVATION: name}
            one.client.create(one.manifest(f"{name}-{number}", labels={ROLE: "crowd"}, annotations=annotations))

        at_once(create, range(CROWD), threads=8)
    opens = monotonic() + (soon - wall()).total_seconds()

    def inside() -> bool:
        crowd = [pod for tenant in world.tenants for pod in world.auditor.pods(tenant.namespace) if pod.role == "crowd"]
        return len(crowd) == 2 * CROWD and all(pod.let_in for pod in crowd)

    until(inside, DEADLINE_S, "the whole crowd is let in")
    took = monotonic() - opens
    for tenant in world.tenants:
        world.auditor.ends([pod for pod in world.auditor.pods(tenant.namespace) if pod.role == "crowd"])
        path = f"/api/v1/namespaces/{tenant.namespace}/pods"
        selector = {"labelSelector": f"{ROLE}=crowd"}
        world.admin.request("DELETE", path, body={"gracePeriodSeconds": 0}, params=selector)
        cancel(tenant, name)
    return [f"the last of {2 * CROWD} was let in {took:.1f} s after the window's start"]
