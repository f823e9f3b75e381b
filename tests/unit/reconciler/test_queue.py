"""Work is taken by value, one key at a time, again when touched meanwhile, and again when it failed."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from common.domain.errors import OutcomeUnknown
from reconciler.queue import Kind, NotNow, Work, WorkQueue
from tests.support.waiting import eventually

POD = Work(Kind.SLICE, "alice", "h100")
ROW = Work(Kind.RESERVATION, "alice", "sprint")


async def _running(handle: Callable[[Work], Awaitable[None]], workers: int = 1) -> tuple[WorkQueue, asyncio.Task[None]]:
    queue = WorkQueue(dict.fromkeys(Kind, handle), workers)
    return queue, asyncio.create_task(queue.run())


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_releases_go_before_phases_whatever_came_first() -> None:
    order: list[Work] = []

    async def handle(work: Work) -> None:
        order.append(work)

    queue = WorkQueue(dict.fromkeys(Kind, handle), 1)
    queue.touch(ROW)
    queue.touch(POD)
    task = asyncio.create_task(queue.run())
    await eventually(lambda: queue.idle)
    assert order == [POD, ROW]
    await _end(task)


async def test_a_key_touched_many_times_is_handled_once() -> None:
    count = 0

    async def handle(_work: Work) -> None:
        nonlocal count
        count += 1

    queue = WorkQueue(dict.fromkeys(Kind, handle), 4)
    for _ in range(10):
        queue.touch(POD)
    task = asyncio.create_task(queue.run())
    await eventually(lambda: queue.idle and count > 0)
    assert count == 1
    await _end(task)


async def test_a_key_touched_while_in_work_is_handled_again_and_never_twice_at_once() -> None:
    started, at_once, most = 0, 0, 0
    go = asyncio.Event()

    async def handle(_work: Work) -> None:
        nonlocal started, at_once, most
        started += 1
        at_once += 1
        most = max(most, at_once)
        await go.wait()
        at_once -= 1

    queue, task = await _running(handle, workers=4)
    queue.touch(POD)
    await eventually(lambda: started == 1)
    queue.touch(POD)
    queue.touch(POD)
    go.set()
    await eventually(lambda: queue.idle)
    assert (started, most) == (2, 1)
    await _end(task)


async def test_what_failed_is_tried_again() -> None:
    tries = 0

    async def handle(_work: Work) -> None:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise OutcomeUnknown(0, "cut")

    queue, task = await _running(handle)
    queue.touch(POD)
    await eventually(lambda: tries == 3)
    await _end(task)


async def test_after_leadership_is_lost_nothing_that_waited_is_handled() -> None:
    handled: list[Work] = []

    async def handle(work: Work) -> None:
        handled.append(work)

    queue = WorkQueue(dict.fromkeys(Kind, handle), 1)
    queue.touch(POD)
    queue.clear()
    task = asyncio.create_task(queue.run())
    queue.touch(ROW)
    await eventually(lambda: queue.idle)
    assert handled == [ROW]
    await _end(task)


async def test_reasons_wait_while_releases_are_in_work() -> None:
    go = asyncio.Event()
    told: list[Work] = []

    async def release(_work: Work) -> None:
        await go.wait()

    async def tell(work: Work) -> None:
        told.append(work)

    releases = WorkQueue(dict.fromkeys(Kind, release), 1)
    reasons = WorkQueue(dict.fromkeys(Kind, tell), 1, after=releases)
    tasks = [asyncio.create_task(releases.run()), asyncio.create_task(reasons.run())]
    releases.touch(POD)
    reasons.touch(ROW)
    await eventually(lambda: not len(reasons))
    assert told == []
    go.set()
    await eventually(lambda: told == [ROW])
    for task in tasks:
        await _end(task)


async def test_nothing_is_handled_while_nothing_is_certain_and_what_turns_out_so_midway_is_handled_again() -> None:
    certain, handled = False, 0

    async def handle(_work: Work) -> None:
        nonlocal handled
        handled += 1
        if handled == 1:
            raise NotNow

    queue = WorkQueue(dict.fromkeys(Kind, handle), 2, certain=lambda: certain)
    queue.touch(POD)
    task = asyncio.create_task(queue.run())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert (handled, len(queue)) == (0, 1)
    certain = True
    await eventually(lambda: handled == 2 and queue.idle)
    await _end(task)
