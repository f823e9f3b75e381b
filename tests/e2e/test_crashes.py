"""The leader dies at every write that matters, before and after it is stored, and at random moments."""

from __future__ import annotations

import secrets
import sys
from collections.abc import Sequence
from random import Random  # noqa: TID251 - seeded, and the seed is printed

import pytest

from common.domain import keys
from tests.controlplane.polling import until
from tests.controlplane.proxy_rules import When
from tests.e2e import reading
from tests.e2e.history import History
from tests.e2e.leaders import (  # noqa: F401 - pytest finds fixtures by importing them
    ANNOUNCE,
    CLAIM,
    CONFIRM,
    DROP_CLAIM,
    OPEN,
    SWAP,
    Candidate,
    Leaders,
    Write,
    two_reconcilers,
    untouched_reconcilers,
)
from tests.e2e.stage import Stage, Tenant

pytestmark = pytest.mark.controlplane

DEADLINE_S = 40.0
WRITES = {
    "announce": ANNOUNCE,
    "counter": SWAP,
    "confirmed": CONFIRM,
    "claim": CLAIM,
    "opening": OPEN,
    "drop": DROP_CLAIM,
}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES.keys())
def test_successor_finishes_what_a_killed_leader_began(
    write: Write, when: When, leaders: Leaders, stage: Stage
) -> None:
    stage.open(2)
    alice = stage.tenant()
    first = leaders.leading()
    with History(stage.admin, stage.gpu_class, 2):
        for number in range(3):
            alice.create_pod(f"trainer-{number}")
        first.dies_at(write, when)
        for name in ("sprint", "rival"):
            alice.book(name, units=2)

        if write is DROP_CLAIM:
            _settled(alice, waiting=1)
            alice.admin.delete("pods", _running(alice)[0], alice.namespace, grace_s=0)
        until(lambda: not first.replica.child.running, DEADLINE_S, "the leader has died at the write")
        leaders.succeeded(first)
        first.replica.child.start()
        if write is not DROP_CLAIM:
            _settled(alice, waiting=1)
            alice.admin.delete("pods", _running(alice)[0], alice.namespace, grace_s=0)
        _settled(alice, waiting=0)


def test_successor_takes_back_the_reason_for_waiting_that_a_killed_leader_left_on_a_pod(
    leaders: Leaders, stage: Stage
) -> None:
    stage.open(1)
    alice = stage.tenant()
    first = leaders.leading()
    with History(stage.admin, stage.gpu_class, 1):
        alice.create_pod("trainer-0")
        alice.waits_for("trainer-0", "NoReservation")
        first.dies_at(OPEN, "after")
        alice.book("sprint")
        alice.runs("trainer-0")
        until(lambda: not reading.condition(alice.pod("trainer-0")), DEADLINE_S, "the pod waits for nothing any more")


def test_pods_come_and_go_through_crashes_at_random_moments(leaders: Leaders, stage: Stage) -> None:
    seed = secrets.randbelow(1 << 32)
    sys.stdout.write(f"seed {seed}\n")
    chance = Random(seed)
    stage.open(4, 4)
    alice = stage.tenant()
    with History(stage.admin, stage.gpu_class, 8):
        alice.book("sprint", units=3)
        alice.book("rival", units=6)
        alice.book("extra", units=5, pods={"matchLabels": {"team": "extra"}})
        numbers = iter(range(1000))
        for _ in range(4):
            for _ in range(3):
                alice.create_pod(f"trainer-{next(numbers)}", gpus=chance.choice([1, 1, 2]))
            names = _running(alice)
            for name in chance.sample(names, min(len(names), 2)):
                alice.admin.delete("pods", name, alice.namespace, grace_s=chance.choice([0, 1]))
            leader = leaders.leading()
            _let_pass(alice, leader, chance.randrange(12))
            leader.replica.child.kill()
            if chance.random() < 0.5:
                leader.replica.child.start()
                leaders.leading()
            else:
                leaders.succeeded(leader)
                leader.replica.child.start()
        until(lambda: _full_or_none_waits(alice), DEADLINE_S, "whoever fits runs")
        until(lambda: _claimed_by_the_living(alice), 100.0, "claims of live pods only")


def _let_pass(tenant: Tenant, leader: Candidate, writes: int) -> None:
    """Wait until the leader has written so often, or has nothing more to write."""
    before = len(leader.writes())
    try:
        until(lambda: len(leader.writes()) >= before + writes, 2.0, "writes of the leader")
    except TimeoutError:
        return


def _running(tenant: Tenant) -> Sequence[str]:
    return [pod["metadata"]["name"] for pod in tenant.pods() if reading.phase(pod) == "Running"]


def _settled(tenant: Tenant, waiting: int) -> None:
    """Exactly one of the two reservations got the units, two pods run in it, and the others know why they do not."""

    def settled() -> bool:
        reservations = [tenant.reservation(name) for name in ("sprint", "rival")]
        if sorted(map(reading.phase, reservations)) != ["Active", "Denied"]:
            return False
        pods = tenant.pods()
        held = [pod for pod in pods if reading.held(pod)]
        told = all(reading.reason(pod) == "ReservationFull" for pod in held)
        return len(_running(tenant)) == 2 and len(held) == waiting and told and _claimed_by_the_living(tenant)

    until(settled, DEADLINE_S, "two pods run, the others are told that the reservation is full")


def _claimed_by_the_living(tenant: Tenant) -> bool:
    """Every pod that was let in has its claim, and no claim is anybody else's."""
    claims = [
        (token, units) for name in _names(tenant) for token, units in reading.claims(tenant.reservation(name)).items()
    ]
    living = [pod for pod in tenant.pods() if reading.let_in(pod) and not reading.over(pod)]
    expected = [(reading.annotations(pod)[keys.CLAIM], reading.units(pod)) for pod in living]
    return sorted(claims) == sorted(expected)


def _names(tenant: Tenant) -> Sequence[str]:
    found = tenant.admin.items("gpureservations.gpures.dev", tenant.namespace)
    return [reservation["metadata"]["name"] for reservation in found]


def _full_or_none_waits(tenant: Tenant) -> bool:
    """Nobody waits beside room that it fits into, and who waits was told."""
    pods = tenant.pods()
    if any(reading.let_in(pod) and reading.phase(pod) != "Running" for pod in pods):
        return False
    rooms = [
        reservation["status"]["granted"]["units"] - sum(reading.claims(reservation).values())
        for reservation in tenant.admin.items("gpureservations.gpures.dev", tenant.namespace)
        if reading.phase(reservation) == "Active" and "pods" not in reservation["spec"]
    ]
    held = [pod for pod in pods if reading.held(pod)]
    return all(reading.units(pod) > max(rooms, default=0) for pod in held)
