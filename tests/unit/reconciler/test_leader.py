"""The lease's thread: it leads, gives up on exit, and never ends without saying so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import cast

import pytest

from common.adapters.clock import monotonic
from common.adapters.kube import Kube
from reconciler.election import Timing
from reconciler.leader import Leadership
from reconciler.lease import NAME
from tests.support.clock import FakeClock
from tests.support.fake_kube import FakeKube
from tests.support.waiting import eventually

QUICK = Timing(lease_s=0.4, renew_s=0.3, retry_s=0.05)


def _leadership(kube: FakeKube, name: str, changes: list[bool] | None = None) -> Leadership:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Kube]:
        yield cast("Kube", kube)

    told = (lambda _leads: None) if changes is None else changes.append
    return Leadership(connect, FakeClock(), monotonic, "gpures-system", name, QUICK, told)


async def test_one_leads_and_the_other_follows_at_once_when_it_gives_up() -> None:
    kube, changes = FakeKube(), list[bool]()
    first, second = _leadership(kube, "first", changes), _leadership(kube, "second")
    running = asyncio.create_task(first.run())
    await eventually(first.leads)
    following = asyncio.create_task(second.run())
    await asyncio.sleep(0)
    assert not second.leads()
    await first.stop(2)
    await running
    await eventually(second.leads)
    assert not first.leads()
    assert changes[0] is True
    assert changes[-1] is False
    await second.stop(2)
    await following


async def test_a_holder_renews_without_reading_the_lease_first() -> None:
    kube = FakeKube()
    leader = _leadership(kube, "first")
    running = asyncio.create_task(leader.run())
    await eventually(lambda: len(kube.accepted) >= 4)
    await leader.stop(2)
    await running
    assert sum(1 for method, _, _ in kube.requests if method == "GET") == 1


async def test_a_lease_without_a_spec_is_taken_and_ends_no_thread() -> None:
    kube = FakeKube()
    kube.put("leases", {"metadata": {"name": NAME, "namespace": "gpures-system"}})
    leader = _leadership(kube, "first")
    running = asyncio.create_task(leader.run())
    await eventually(leader.leads)
    await leader.stop(2)
    await running


async def test_a_thread_that_cannot_go_on_ends_the_process_rather_than_standing_by_for_ever() -> None:
    def connect() -> AbstractAsyncContextManager[Kube]:
        message = "no configuration"
        raise ValueError(message)

    leader = Leadership(connect, FakeClock(), monotonic, "gpures-system", "first", QUICK, lambda _leads: None)
    with pytest.raises(RuntimeError, match="no configuration"):
        await asyncio.wait_for(leader.run(), 5)
