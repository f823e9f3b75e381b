"""Wrong clocks: of a process (its own wall clock), and of the API server that it asks (the Date header)."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from tests.controlplane.polling import until
from tests.faults.world import World

SHIM: Final = Path(__file__).with_name("clock_shim.c")
MINUTES_5: Final = 300
BEHIND: Final = timedelta(minutes=-5)
DEADLINE_S: Final = 60.0


def wrong(world: World) -> Sequence[str]:
    """Their own clocks 5 min ahead, then 5 min behind; then what they are told as the Date, 5 min behind and right."""
    told = [_own_clocks(world)]
    for each in world.reconcilers:
        each.proxy.date_shift = BEHIND
    world.lasts(20, 5)
    for each in world.reconcilers:
        each.proxy.date_shift = timedelta()
    return [*told, "the Date header: 5 min behind, then right again"]


def differ(world: World) -> Sequence[str]:
    """One webhook is a minute ahead and the leader half a minute behind: windows are judged by what each is told."""
    world.webhooks[0].proxy.date_shift = timedelta(seconds=60)
    leader = world.leader()
    leader.proxy.date_shift = timedelta(seconds=-30)
    world.lasts(20, 8)
    world.webhooks[0].proxy.date_shift = leader.proxy.date_shift = timedelta()
    return ()


def _own_clocks(world: World) -> str:
    library = _compiled(world.cluster.directory)
    if library is None:
        return "own clocks: not tried, there is no C compiler for the shim"
    clock = world.cluster.directory / "clock"
    clock.write_text(str(MINUTES_5))
    for each in world.reconcilers:
        child = each.replica.child
        child.terminate()
        child.env |= {"LD_PRELOAD": str(library), "FAULTS_CLOCK": str(clock)}
        child.start()
    for each in world.reconcilers:
        until(each.replica.ready, DEADLINE_S, "ready with a wrong clock")
    world.leader()
    world.lasts(15, 3)
    clock.write_text(str(-MINUTES_5))
    world.lasts(15, 3)
    clock.write_text("0")
    for each in world.reconcilers:
        for name in ("LD_PRELOAD", "FAULTS_CLOCK"):
            each.replica.child.env.pop(name)
    return "own clocks: 5 min ahead, 5 min behind, right"


def _compiled(folder: Path) -> Path | None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    library = folder / "clock_shim.so"
    if compiler is None:
        return None
    if not library.exists():
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(library), str(SHIM), "-ldl"]
        subprocess.run(command, check=True, timeout=60)
    return library
