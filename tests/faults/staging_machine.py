"""How the machine fails: no memory left for one process, and links on which packets come late or a second time."""

from __future__ import annotations

import os
import random  # noqa: TID251 - a generator with a seed
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from common.domain import keys
from tests.controlplane.fault_splitter import Mode
from tests.controlplane.polling import until
from tests.controlplane.proxy_rules import PASS, Action, Exchange, Outcome, delaying
from tests.e2e.leaders import Candidate
from tests.e2e.stage import at_once
from tests.faults.staging_others import GIANT_BYTES, idle_pod
from tests.faults.timing import monotonic
from tests.faults.world import World

MEMORY: Final = Path("/sys/fs/cgroup/memory")
HEADROOM: Final = 1 << 20
GIANTS: Final = 6
KILLED: Final = -9
NO_LIMIT: Final = "needs root and the memory controller of cgroup v1; its end, SIGKILL, is F1, F2 and F11"
CAN_LIMIT_MEMORY: Final = os.access(MEMORY / "cgroup.procs", os.W_OK)
DEADLINE_S: Final = 60.0
JITTER_S: Final = 0.05
AGAIN_S: Final = 0.2
"""The least time after which TCP sends a lost segment again, on Linux."""
LOST: Final = 0.05


def memory_runs_out(world: World) -> Sequence[str]:
    """A webhook, then a reconciler, has room for one more megabyte, is killed by the kernel and comes again."""
    told = []
    for each in (world.webhooks[0], world.leader()):
        child = each.replica.child
        with _group() as group:
            # What a process has from before it came to its group does not count there.
            child.kill()
            child.start()
            (group / "cgroup.procs").write_text(str(child.pid))
            until(each.replica.ready, DEADLINE_S, f"{child.name} ready")
            (group / "memory.limit_in_bytes").write_text(str(_resident(group) + HEADROOM))
            _feed(world, each)
            code = child.wait(DEADLINE_S)
        if code != KILLED:
            message = f"{child.name} was not killed for want of memory: it ended with {code}"
            raise RuntimeError(message)
        began = monotonic()
        world.lasts(5, 2)
        child.start()
        until(each.replica.ready, DEADLINE_S, f"{child.name} ready")
        told.append(f"ready {monotonic() - began:.1f} s later")
    return told


def links_are_bad(world: World) -> Sequence[str]:
    """What loss and reordering below TCP come to for those who use it: bytes late, some by a retransmission."""
    for each in world.ours:
        each.proxy.rule(_jittered(random.Random(each.replica.child.name)), times=None)
    with world.bad_ways(Mode(jitter_s=JITTER_S, lost=LOST, again_s=AGAIN_S)):
        world.lasts(20, 8)
    for each in world.ours:
        each.proxy.clear()
    return [f"up to {JITTER_S * 1000:.0f} ms a piece, {AGAIN_S * 1000:.0f} ms more for {LOST:.0%} of them"]


def _jittered(chance: random.Random) -> Action:
    async def action(exchange: Exchange) -> Outcome:
        again = AGAIN_S if chance.random() < LOST else 0.0
        await delaying(chance.uniform(0, JITTER_S) + again)(exchange)
        return PASS

    return action


def _feed(world: World, each: Candidate) -> None:
    """Large pods, reviewed all at the same time, and then listed."""
    manifests = [idle_pod(f"giant-{number}", world.bob.namespace) for number in range(GIANTS)]
    for manifest in manifests:
        manifest["metadata"]["labels"] = {keys.CLASS_LABEL: world.stage.gpu_class}
        manifest["spec"]["containers"][0]["env"] = [{"name": "LARGE", "value": "x" * GIANT_BYTES}]
    at_once(lambda number: world.admin.create(manifests[number]), range(GIANTS))

    def over() -> bool:
        each.proxy.cut_watches()
        return not each.replica.child.running

    try:
        until(over, DEADLINE_S, f"{each.replica.child.name} is out of memory")
    finally:
        for number in range(GIANTS):
            world.admin.delete("pods", f"giant-{number}", world.bob.namespace, grace_s=0)


@contextmanager
def _group() -> Iterator[Path]:
    group = MEMORY / f"gpures-faults-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        group.rmdir()


def _resident(group: Path) -> int:
    """Bytes that the kernel cannot take back."""
    lines = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
    return int(lines["rss"])
