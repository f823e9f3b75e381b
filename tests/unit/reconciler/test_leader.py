"""The lease's thread: it leads, gives up on exit, and never ends without saying so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
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
SLOW = Timing(lease_s=300, renew_s=200, retry_s=100)
"""Whoever waits for the next look does nothing within a test."""


def _leadership(kube: FakeKube, name: str, changes: list[bool] | None = None, *, timing: Timing = QUICK) -> Leadership:
    @asynccontextmanager
    async def connect() -> AsyncIterator[Kube]:
        yield cast("Kube", kube)

    told = (lambda _leads: None) if changes is None else changes.append
    return Leadership(connect, FakeClock(), monotonic, "gpures-system", name, timing, told)


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


def _looks(kube: FakeKube) -> int:
    return sum(1 for method, _, _ in kube.requests if method == "GET")


async def test_a_standby_hears_that_the_lease_was_given_up_and_does_not_wait_for_its_next_look() -> None:
    kube = FakeKube()
    first, second = _leadership(kube, "first", timing=SLOW), _leadership(kube, "second", timing=SLOW)
    running = asyncio.create_task(first.run())
    await eventually(first.leads)
    following = asyncio.create_task(second.run())
    await eventually(lambda: _looks(kube) == 2 and len(kube.feeds) == 2, "the standby has looked, and listens")
    await first.stop(2)
    await running
    await eventually(second.leads)
    await second.stop(2)
    await following


async def test_a_holder_is_not_woken_by_what_it_writes_itself() -> None:
    kube = FakeKube()
    first = _leadership(kube, "first", timing=SLOW)
    second = _leadership(kube, "second", timing=replace(SLOW, retry_s=0.01))
    running = asyncio.create_task(first.run())
    await eventually(first.leads)
    following = asyncio.create_task(second.run())
    await eventually(lambda: _looks(kube) > 10, "another process has looked again and again meanwhile")
    # The second, where the watch spoke of the first before its own answer did.
    assert len(kube.accepted) <= 2
    for each, task in ((second, following), (first, running)):
        await each.stop(2)
        await task


async def test_a_holder_renews_without_reading_the_lease_first() -> None:
    kube = FakeKube()
    leader = _leadership(kube, "first")
    running = asyncio.create_task(leader.run())
    await eventually(lambda: len(kube.accepted) >= 4)
    await leader.stop(2)
    await running
    assert _looks(kube) == 1


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
