"""The rest: floods, a full disk, a stranger's webhook, restarts and old versions."""

from __future__ import annotations

import resource
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.polling import until
from tests.e2e.leaders import Candidate
from tests.faults.facts import ROLE
from tests.faults.stranger import Stranger
from tests.faults.timing import lasts, monotonic
from tests.faults.world import World
from tests.support.older import PROGRAMS, ROOT, older

DEADLINE_S = 60.0
STORM_S, STORM_THREADS = 10.0, 4
GIANT_BYTES = 1_400_000


def storm(world: World) -> Sequence[str]:
    count, end = 0, monotonic() + (4.0 if world.brief else STORM_S)
    namespace = world.bob.namespace
    lock = threading.Lock()
    for number in range(STORM_THREADS):
        world.admin.create(idle_pod(f"storm-{number}", namespace))

    def blow(number: int) -> None:
        nonlocal count
        with ApiClient(world.admin.connection) as client:
            while monotonic() < end:
                change = {"metadata": {"annotations": {"example.com/turn": str(monotonic())}}}
                client.patch("pods", f"storm-{number}", change, namespace)
                with lock:
                    count += 1

    threads = [threading.Thread(target=blow, args=(number,), daemon=True) for number in range(STORM_THREADS)]
    began = monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [f"{count / (monotonic() - began):.0f} updates a second, not 5,000"]


def giants(world: World) -> Sequence[str]:
    """Under the API server's own limit, so that every one of them comes to us."""
    tenant = world.alice
    variable = {"name": "LARGE", "value": "x" * GIANT_BYTES}
    sent, end = 0, monotonic() + (5.0 if world.brief else 15.0)
    while monotonic() < end:
        manifest = tenant.manifest(f"giant-{sent}", labels={ROLE: "giant"})
        manifest["spec"]["containers"][0]["env"] = [variable]
        try:
            tenant.client.create(manifest)
            world.auditor.ends(pod for pod in world.auditor.pods(tenant.namespace) if pod.role == "giant")
            tenant.client.delete("pods", f"giant-{sent}", tenant.namespace, grace_s=0)
        except ApiError:
            pass
        sent += 1
        lasts(0.2)
    return [f"{sent} of {GIANT_BYTES / 1e6:.1f} MB"]


def disk_full(world: World) -> Sequence[str]:
    """Started anew with a log of its own size zero, so that the first line that is logged meets the limit."""
    before = {}
    for each in world.ours:
        pid = each.replica.child.pid
        before[pid] = resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    world.webhooks[0].proxy.cut_watches()
    for each in world.reconcilers:
        each.proxy.cut_watches()
    world.lasts(15, 6)
    told = [f"{each.replica.child.name} ended" for each in world.ours if not each.replica.child.running]
    for each in world.ours:
        if each.replica.child.running:
            resource.prlimit(each.replica.child.pid, resource.RLIMIT_FSIZE, before[each.replica.child.pid])
    return told


def stranger(world: World) -> Sequence[str]:
    with Stranger(world.cluster, [tenant.namespace for tenant in world.tenants]) as other:
        world.lasts(15, 6)
        return [f"it stripped {other.stripped} gates and added {other.added} containers"]


def rolled(world: World) -> Sequence[str]:
    """Each is gone before it comes again, as a Recreate would have it, which is harder than a rolling update."""
    told = []
    for each in world.ours:
        child, leads = each.replica.child, each.leads()
        began = monotonic()
        code = child.terminate(20.0)
        told.append(f"{child.name} ended with {code} after {monotonic() - began:.1f} s")
        if leads:
            told.append(f"followed within {world.takes_over(world.other(each), began):.1f} s of the signal")
        child.start()
        until(each.replica.ready, DEADLINE_S, f"{child.name} ready")
    return told


def skew(world: World) -> Sequence[str]:
    """An older commit's webhooks with the new reconcilers, then the other way round, then all new again."""
    old = older(world.cluster.directory / "older", *PROGRAMS)
    commit = old.name
    for candidates in (world.webhooks, world.reconcilers):
        _restart(candidates, old)
        world.product.wait_ready()
        world.lasts(15, 4)
        _restart(candidates, ROOT)
        world.product.wait_ready()
    return [f"older: {commit}"]


def _restart(candidates: Sequence[Candidate], programs: Path) -> None:
    for each in candidates:
        child = each.replica.child
        child.terminate(20.0)
        child.env["PYTHONPATH"] = str(programs)
        child.start()


def idle_pod(name: str, namespace: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "main", "image": "busybox"}], "schedulingGates": [{"name": "example.com/idle"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec}
