"""Tasks that may not end, and the orderly way out."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

from structlog.testing import capture_logs

from common.supervise import Health, Supervisor


async def forever() -> None:
    await asyncio.Event().wait()


async def test_a_task_that_dies_takes_the_process_down_loudly() -> None:
    async def dies() -> None:
        raise ZeroDivisionError

    supervisor = Supervisor()
    supervisor.start("other", forever())
    supervisor.start("planner", dies())
    with capture_logs() as logs:
        async with asyncio.timeout(5):
            assert await supervisor.run() == 1
    (died,) = [entry for entry in logs if entry["event"] == "supervise.task_died"]
    assert died["task"] == "planner"
    assert died["log_level"] == "critical"
    assert isinstance(died["exc_info"], ZeroDivisionError)


async def test_a_task_that_merely_returns_has_died_too() -> None:
    async def returns() -> None:
        return

    supervisor = Supervisor()
    supervisor.start("short", returns())
    async with asyncio.timeout(5):
        assert await supervisor.run() == 1


async def test_a_signal_stops_in_order() -> None:
    order: list[str] = []

    async def last(name: str) -> None:
        try:
            await forever()
        finally:
            order.append(f"{name} cancelled")

    async def step(name: str) -> None:
        order.append(name)
        await asyncio.sleep(0)

    supervisor = Supervisor()
    supervisor.start("first", last("first"))
    supervisor.start("second", last("second"))
    supervisor.on_stop("drain", lambda: step("drain"), within_s=5)
    supervisor.on_stop("release", lambda: step("release"), within_s=5)
    running = asyncio.create_task(supervisor.run())
    await asyncio.sleep(0)
    assert supervisor.health.ready() == {}
    os.kill(os.getpid(), signal.SIGTERM)
    async with asyncio.timeout(5):
        assert await running == 0
    assert order == ["drain", "release", "second cancelled", "first cancelled"]
    assert supervisor.health.ready() == {"stopping": "the process is stopping"}
    assert supervisor.health.live() == {}


async def test_a_step_that_hangs_or_fails_does_not_stop_the_others() -> None:
    taken: list[str] = []

    async def fails() -> None:
        raise ZeroDivisionError

    async def works() -> None:
        taken.append("works")

    supervisor = Supervisor()
    supervisor.on_stop("hangs", forever, within_s=0.01)
    supervisor.on_stop("fails", fails, within_s=5)
    supervisor.on_stop("works", works, within_s=5)
    supervisor.stop("test")
    with capture_logs() as logs:
        async with asyncio.timeout(5):
            assert await supervisor.run() == 1
    assert taken == ["works"]
    assert {entry["event"] for entry in logs} >= {"supervise.step_too_slow", "supervise.step_failed"}


async def test_a_task_that_ignores_its_end_is_named() -> None:
    released = asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    supervisor = Supervisor(cancel_within_s=0.01)
    supervisor.start("stubborn", stubborn())
    await asyncio.sleep(0)
    supervisor.stop("test")
    with capture_logs() as logs:
        async with asyncio.timeout(5):
            assert await supervisor.run() == 1
    assert [entry["task"] for entry in logs if entry["event"] == "supervise.task_stuck"] == ["stubborn"]
    released.set()
    await asyncio.sleep(0)


def test_health() -> None:
    health = Health()
    wrong: dict[str, str | None] = {"watch": None, "loop": None}
    health.add_ready("watch", lambda: wrong["watch"])
    health.add_live("loop", lambda: wrong["loop"])
    assert (health.live(), health.ready()) == ({}, {})
    wrong["watch"] = "not synced"
    assert (health.live(), health.ready()) == ({}, {"watch": "not synced"})
    wrong["loop"] = "stuck"
    assert (health.live(), health.ready()) == ({"loop": "stuck"}, {"loop": "stuck", "watch": "not synced"})


def test_a_task_that_dies_where_nothing_can_be_logged_ends_the_process_all_the_same() -> None:
    script = (
        "import asyncio\n"
        "from common.adapters import logs\n"
        "from common.supervise import Supervisor, exit_code\n"
        "async def dies(): raise RuntimeError\n"
        "async def main():\n"
        "    supervisor = Supervisor()\n"
        "    supervisor.start('planner', dies())\n"
        "    return await supervisor.run()\n"
        "logs.configure()\n"
        "raise SystemExit(exit_code(main))\n"
    )
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([sys.executable, "-c", script], stderr=full, timeout=15, check=False)
    assert ended.returncode != 0
