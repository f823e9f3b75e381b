"""How webhooks are broken: processes, the way to them, their certificates, their registration."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import httpx

from tests.controlplane.fault_splitter import Mode
from tests.controlplane.install import WEBHOOKS, documents
from tests.controlplane.polling import until
from tests.controlplane.product import NAMESPACE, TLS_SECRET, Replica
from tests.faults.timing import lasts, monotonic
from tests.faults.world import World

CA_SECRET = "gpures-webhook-ca"
RENEWED_S = 120.0
CONFIGURATION = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
# A handshake takes about 2 kB there and 2 kB back; a review is 4 to 8 kB, its answer less than 2.
CUTS = (0, 300, 1500, 2500, 4000, 6000)
DUTY = 0.05


def one_killed(world: World) -> Sequence[str]:
    child = world.webhooks[0].replica.child
    child.kill()
    world.lasts(10, 4)
    child.start()
    world.product.wait_ready()
    return ()


def all_killed(world: World) -> Sequence[str]:
    for each in world.webhooks:
        each.replica.child.kill()
    world.lasts(15, 5)
    for each in world.webhooks:
        each.replica.child.start()
    world.product.wait_ready()
    return ()


def one_frozen(world: World) -> Sequence[str]:
    """Longer than the API server waits, so that answers come when nobody listens any more."""
    replica = world.webhooks[0].replica
    replica.child.freeze()
    lively = _lives(replica)
    world.lasts(30, 7)
    replica.child.thaw()
    return [] if not lively else ["liveness did not notice"]


def slow(world: World) -> Sequence[str]:
    with world.bad_ways(Mode(delay_s=1.0)):
        world.lasts(10, 4)
    with world.bad_ways(Mode(delay_s=6.0)):
        world.lasts(15, 7)
    return ()


def silent(world: World) -> Sequence[str]:
    with world.bad_ways(Mode(black_hole=True)):
        world.lasts(15, 7)
    return ()


def cut(world: World) -> Sequence[str]:
    with world.lanes() as lanes:
        for number in CUTS:
            for lane in lanes:
                lane.mode = Mode(cut_after=number, way="there" if lane is lanes[0] else "back")
                lane.cut()
            world.lasts(5, 1.2)
    return [f"bytes: {', '.join(map(str, CUTS))}, there for one replica and back for the other"]


def idle(world: World) -> Sequence[str]:
    """The API server drops a connection after 90 s of rest; a webhook that did so first would fail the next review."""
    with world.lanes() as lanes:
        lasts(3)
        world.resting.set()
        lasts(90)
        world.resting.clear()
        lasts(5)
        closed = sum(lane.closed_by_replica for lane in lanes)
    return [f"connections that a webhook closed first: {closed}"]


def certificate_replaced(world: World) -> Sequence[str]:
    before = world.product.files.generations
    world.admin.delete("secrets", TLS_SECRET, NAMESPACE)
    until(lambda: world.product.files.generations > before, RENEWED_S, "new files")
    world.lasts(5, 2)
    return ()


def authority_replaced(world: World) -> Sequence[str]:
    before = world.product.ca_pem
    world.admin.delete("secrets", CA_SECRET, NAMESPACE)
    until(lambda: world.product.ca_pem != before, RENEWED_S, "a new CA is trusted")
    world.lasts(5, 2)
    return ()


def expired(world: World) -> Sequence[str]:
    """One webhook is told a Date after its certificate's end: it says so before anybody has to find out."""
    proxy, replica = world.webhooks[0].proxy, world.webhooks[0].replica
    with world.lanes() as lanes:
        # As kubelet and Service would: a replica that is not ready gets no review.
        world.product.service.remove(lanes[0].back_end, cut=True)
        proxy.date_shift += timedelta(days=200)
        until(lambda: not replica.ready(), 60.0, "a webhook with an expired certificate is not ready")
        world.lasts(10, 3)
        proxy.date_shift *= 0
        until(replica.ready, 60.0, "ready again")
        world.product.service.add(lanes[0].back_end)
    return ()


def starved(world: World) -> Sequence[str]:
    end = monotonic() + (5.0 if world.brief else 15.0)
    children = [each.replica.child for each in world.webhooks]
    while monotonic() < end:
        for child in children:
            child.thaw()
        lasts(DUTY * 0.1)
        for child in children:
            child.freeze()
        lasts((1 - DUTY) * 0.1)
    for child in children:
        child.thaw()
    return ()


def unregistered(world: World) -> Sequence[str]:
    """Nothing of ours may do this, and nothing of ours undoes it: an administrator did it."""
    world.admin.delete(CONFIGURATION, "zz-gpures")
    world.lasts(10, 4)
    for configuration in documents("base", WEBHOOKS):
        world.admin.apply(configuration, field_manager="gpures-install")
    until(lambda: _bundled(world), RENEWED_S, "the leader has put its bundle in")
    return ()


def _bundled(world: World) -> bool:
    entries = world.admin.get(CONFIGURATION, "zz-gpures")["webhooks"]
    return all(entry["clientConfig"].get("caBundle") for entry in entries)


def _lives(replica: Replica) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{replica.probe_port}/livez", timeout=1).is_success
    except httpx.HTTPError:
        return False
