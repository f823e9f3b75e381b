"""Two writers, the loop of a term, and the one-shot of installers."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import NoReturn

import pytest
from structlog.testing import capture_logs

from certs.run import NotNow
from common.domain.errors import OutcomeUnknown, Refused
from tests.support.waiting import eventually
from tests.unit.certs.cluster import CA, DAY, MINUTE, TLS, Cluster

PROPAGATION = 2 * MINUTE


async def passing(cluster: Cluster, until: Callable[[], object] | asyncio.Task[None]) -> None:
    """Let time pass, a second at a time, until something is so or a task has ended."""
    end = until.done if isinstance(until, asyncio.Task) else until
    for _ in range(600):
        for _ in range(30):  # turns of the loop for what a second brings
            await asyncio.sleep(0)
        if end():
            return
        cluster.clock.advance(1)
    raise AssertionError(until)


async def cancelled(task: asyncio.Task[NoReturn]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.fixture
async def cluster() -> Cluster:
    """Installed and settled."""
    return await Cluster().install()


# -------------------------------------------------------------------------------------------------- two writers


async def test_whoever_is_slower_looks_again(cluster: Cluster) -> None:
    cluster.clock.advance(60 * DAY)
    cluster.collide("PATCH", f"secrets/{TLS}")
    await cluster.rotation.settle()
    assert cluster.verifies()
    assert len(cluster.kube.writes("secrets")) == 2


async def test_a_create_that_came_second_takes_what_is_there() -> None:
    cluster = Cluster()
    cluster.configure()
    cluster.collide("POST", "secrets")
    await cluster.rotation.settle()
    assert cluster.verifies()


async def test_a_leader_that_wakes_up_late_finds_its_write_refused(cluster: Cluster) -> None:
    late, fresh = cluster.leader(), cluster.leader()
    await late.settle()
    await fresh.settle()
    cluster.clock.advance(60 * DAY)

    async def meanwhile() -> None:
        await fresh.settle()

    cluster.kube.when("PATCH", f"secrets/{TLS}", meanwhile)
    await late.settle()
    written = [path for method, path, _ in cluster.kube.accepted[-3:] if method == "PATCH"]
    assert written[-1].endswith(TLS)
    assert len(cluster.kube.writes("secrets")) == 2, "both tried"
    assert sum(path.endswith(TLS) for path in written) == 1, "one was accepted"
    assert cluster.verifies()


async def test_who_does_not_lead_writes_nothing(cluster: Cluster) -> None:
    cluster.clock.advance(60 * DAY)
    cluster.leads = False
    with pytest.raises(NotNow):
        await cluster.rotation.settle()
    assert cluster.kube.writes() == []


async def test_a_new_leader_waits_anew_before_a_leaf_of_a_new_ca(cluster: Cluster) -> None:
    cluster.delete_secret(CA)
    await cluster.rotation.settle()
    leaf = cluster.leaf()
    cluster.clock.advance(PROPAGATION)
    fresh = cluster.leader()
    await fresh.settle()
    assert cluster.leaf() == leaf
    cluster.clock.advance(PROPAGATION)
    await fresh.settle()
    assert cluster.leaf() != leaf


# --------------------------------------------------------------------------------------------------------- loop


async def test_the_loop_repairs_within_seconds_and_survives_every_failure(cluster: Cluster) -> None:
    def fails() -> None:
        raise OutcomeUnknown(0, "cut")

    def bug() -> None:
        message = "a mistake of ours"
        raise RuntimeError(message)

    cluster.kube.when("GET", f"secrets/{CA}", fails)
    cluster.kube.when("GET", f"secrets/{CA}", bug)
    with capture_logs() as logs:
        task = asyncio.create_task(cluster.rotation.run())
        await passing(cluster, lambda: len(logs) == 2)
        cluster.configure(generation=2)
        start = cluster.clock.monotonic()
        await passing(cluster, cluster.verifies)
        assert cluster.clock.monotonic() - start <= 10
        await cancelled(task)
    assert [entry["event"] for entry in logs[:2]] == ["certificates.round_failed"] * 2


@pytest.mark.parametrize("mode", ["certManager", "files"])
async def test_in_the_other_modes_nothing_is_touched(mode: str) -> None:
    cluster = Cluster()
    cluster.configure()
    with capture_logs() as logs:
        task = asyncio.create_task(cluster.leader(certs=mode).run())
        await eventually(lambda: logs)
        await passing(cluster, lambda: len(cluster.kube.requests) > 4)
        await cancelled(task)
    assert {method for method, _, _ in cluster.kube.requests} == {"GET"}
    assert not any("/secrets" in path for _, path, _ in cluster.kube.requests)


async def test_without_knowing_the_time_nothing_is_decided() -> None:
    cluster = Cluster()
    cluster.clock.set_uncertainty(timedelta.max)
    with pytest.raises(NotNow):
        await cluster.rotation.settle()
    assert cluster.kube.writes() == []


# ----------------------------------------------------------------------------------------------------- one-shot


async def test_the_one_shot_makes_what_is_missing_and_no_more() -> None:
    cluster = Cluster()
    cluster.configure()
    await cluster.leader().bootstrap()
    assert cluster.verifies()
    cluster.clock.advance(60 * DAY)
    cluster.kube.requests.clear()
    await cluster.leader().bootstrap()
    assert cluster.kube.writes() == [], "renewing is the leader's"


async def test_the_one_shot_goes_on_after_a_refusal() -> None:
    cluster = Cluster()

    def not_yet() -> None:
        raise Refused(403, "no role yet")

    cluster.kube.when("GET", f"secrets/{CA}", not_yet)
    await passing(cluster, asyncio.create_task(cluster.leader().bootstrap()))
    assert cluster.leaf().cert


async def test_the_one_shot_waits_where_replicas_may_still_serve_the_old(cluster: Cluster) -> None:
    cluster.delete_secret(CA)
    cluster.delete_secret(TLS)
    start = cluster.clock.monotonic()
    task = asyncio.create_task(cluster.leader().bootstrap())
    await passing(cluster, task)
    assert cluster.clock.monotonic() - start >= PROPAGATION.total_seconds()
    assert cluster.verifies()
