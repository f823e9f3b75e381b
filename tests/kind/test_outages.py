"""Parts of the release or a node away under load: the promises I1 to I5 hold meanwhile, and I14 soon afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from tests.controlplane.polling import until
from tests.faults.facts import PodSeen
from tests.faults.runner import run
from tests.faults.table import GUARDLESS, Fault
from tests.faults.timing import lasts
from tests.faults.world import World
from tests.kind.installation import DEPLOYMENTS, Installation
from tests.kind.running import Record
from tests.kind.running import run as program
from tests.kind.world import KindWorld

pytestmark = pytest.mark.kind

AWAY_S = 8.0
PAUSED_S = 60.0
DRAINED_S = 90.0
DEADLINE_S = 120.0
ENDED_WITH_THEIR_NODE = ("I1", "I2", "I3", "I5")
"""I8, that nobody ends a pod inside its guarantee, is not asked of whoever drains a node."""


@pytest.fixture(scope="module")
def world(installation: Installation) -> Iterator[KindWorld]:
    with KindWorld(installation) as world:
        yield world


def webhooks_away(world: World) -> Sequence[str]:
    release = _of(world).installation
    release.scale("gpures-webhook", 0)
    lasts(AWAY_S)
    release.scale("gpures-webhook", 2)
    return ()


def leaders_node_stopped(world: World) -> Sequence[str]:
    """The node of the leader stands still; the leader comes to a worker first, for the API server has to go on."""
    kind = _of(world)
    release, worker = kind.installation, kind.stage.kind.nodes.worker
    until(lambda: _led_from(release, worker), DEADLINE_S, "the leader is on the worker")
    first = release.leader()
    program("docker", "pause", worker)
    try:
        until(lambda: release.leader() not in ("", first), PAUSED_S, "the other one leads")
        lasts(PAUSED_S)
    finally:
        program("docker", "unpause", worker)
    kind.stage.kind.kubectl("wait", "node", worker, "--for=condition=Ready", "--timeout=60s", deadline_s=70)
    return [f"{first} on {worker} stood still for {PAUSED_S:.0f} s"]


def node_drained(world: World) -> Sequence[str]:
    kind = _of(world)
    worker, kubectl = kind.stage.kind.nodes.worker, kind.stage.kind.kubectl
    kubectl("cordon", worker)
    try:
        world.auditor.ends(_on(world, worker))
        options = ("--ignore-daemonsets", "--delete-emptydir-data", "--force", f"--timeout={DRAINED_S:.0f}s")
        kubectl("drain", worker, *options, deadline_s=DRAINED_S + 10)
        for name in DEPLOYMENTS:
            kind.installation.wait_ready(name)
    finally:
        kubectl("uncordon", worker)
    return ()


@pytest.mark.parametrize(
    ("stage", "promises"),
    [
        (leaders_node_stopped, ENDED_WITH_THEIR_NODE),
        (webhooks_away, GUARDLESS),
        (node_drained, ENDED_WITH_THEIR_NODE),
    ],
    ids=["leaders-node-stopped", "webhooks-away", "node-drained"],
)
def test_promises_hold_and_all_is_well_soon_after(
    stage: Callable[[World], Sequence[str]], promises: Sequence[str], world: KindWorld, record_property: Record
) -> None:
    outcome = run(world, Fault(stage.__name__.replace("_", "-"), "", "", stage, promises=promises))
    record_property("canaries", outcome.canaries)
    record_property("worst canary", f"{outcome.worst_canary_s:.1f} s")
    record_property("attacks", outcome.attacks)
    record_property("recovered", f"{outcome.recovered_s or 0:.1f} s")
    assert outcome.held, "\n".join(outcome.violations)


def _of(world: World) -> KindWorld:
    assert isinstance(world, KindWorld)
    return world


def _on(world: World, node: str) -> Sequence[PodSeen]:
    return [pod for tenant in world.tenants for pod in world.auditor.pods(tenant.namespace) if pod.node == node]


def _led_from(release: Installation, worker: str) -> bool:
    """Whether it is; otherwise the one that leads is asked to go."""
    places = {pod["metadata"]["name"]: pod["spec"].get("nodeName") for pod in release.pods("gpures-reconciler")}
    leader = release.leader()
    if leader and places.get(leader) == worker:
        return True
    if leader and worker in places.values():
        release.replace_pod(leader)
    return False
