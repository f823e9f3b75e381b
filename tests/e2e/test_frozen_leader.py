"""A leader stands still between two writes, its successor acts, and what the first had under way lands afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest

from common.domain import keys
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import never, until
from tests.controlplane.proxy_rules import Gate, When, in_turn
from tests.e2e import reading
from tests.e2e.history import History
from tests.e2e.leaders import (  # noqa: F401 - pytest finds fixtures by importing them
    ANNOUNCE,
    APPLY,
    CLAIM,
    CONFIRM,
    DENY,
    DROP_CLAIM,
    OPEN,
    RESERVATION,
    SWAP,
    Candidate,
    Leaders,
    Write,
    two_reconcilers,
    untouched_reconcilers,
)
from tests.e2e.stage import RESERVATIONS, Stage, Tenant

pytestmark = pytest.mark.controlplane

DEADLINE_S = 40.0


class Story:
    """One tenant, one leader that will freeze, and the auditor."""

    def __init__(self, leaders: Leaders, stage: Stage, units: int) -> None:
        self.leaders = leaders
        self.stage = stage.open(units)
        self.alice: Tenant = stage.tenant()
        self.first: Candidate = leaders.leading()
        self.history = History(stage.admin, stage.gpu_class, units)

    def frozen(self, gate: Gate) -> None:
        """Wait until the leader stands still at that write, and its successor leads."""
        gate.wait_reached(DEADLINE_S)
        self.leaders.succeeded(self.first)

    def let_land(self, gate: Gate) -> None:
        gate.open()
        exchange = gate.exchange
        assert exchange is not None
        until(lambda: exchange.status, DEADLINE_S, "the late write is answered")

    def thaw(self, gate: Gate) -> None:
        """Let the write land, then let its sender go on, until it knows that it follows."""
        self.let_land(gate)
        self.first.replica.child.thaw()
        until(lambda: self.first.replica.metrics() and not self.first.leads(), DEADLINE_S, "the first follows")

    def landed(self, gate: Gate) -> bool:
        """Whether the API server stored the late write."""
        exchange = gate.exchange
        return exchange is not None and exchange.status == 200

    def claims(self, name: str = "sprint") -> dict[str, int]:
        return dict(reading.claims(self.alice.reservation(name)))

    def granted(self, name: str) -> JsonObject:
        found: JsonObject = self.alice.reservation(name)["status"]["granted"]
        return found

    def cancel(self, name: str = "sprint") -> None:
        self.change(name, cancel=True)

    def change(self, name: str = "sprint", **spec: object) -> None:
        self.alice.client.patch(RESERVATIONS, name, {"spec": spec}, self.alice.namespace)

    def eventually_claimed_by(self, *pods: str, name: str = "sprint", deadline_s: float = DEADLINE_S) -> None:
        """Wait until these pods run and theirs are the only claims of the reservation."""

        def so() -> bool:
            stored = [self.alice.pod(pod) for pod in pods]
            tokens = sorted(reading.annotations(pod).get(keys.CLAIM, "") for pod in stored)
            return all(reading.phase(pod) == "Running" for pod in stored) and tokens == sorted(self.claims(name))

        until(so, deadline_s, f"{name} is claimed by {pods or 'nobody'}")


@contextmanager
def story(leaders: Leaders, stage: Stage, units: int) -> Iterator[Story]:
    told = Story(leaders, stage, units)
    with told.history:
        yield told


# Confirmation


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("write", [ANNOUNCE, SWAP, CONFIRM], ids=["announce", "counter", "confirmed"])
def test_confirmation_is_finished_once_by_the_successor(
    write: Write, when: When, leaders: Leaders, stage: Stage
) -> None:
    with story(leaders, stage, 2) as told:
        gate = told.first.freezes_at(write, when)
        told.alice.book("sprint", units=2)
        told.frozen(gate)
        told.alice.reaches("sprint", "Active")
        told.alice.book("rival", units=1)
        told.alice.reaches("rival", "Denied")
        told.thaw(gate)
        told.alice.create_pod("trainer-0", gpus=2)
        told.eventually_claimed_by("trainer-0")


def test_late_confirmation_of_a_cancelled_reservation_misses_though_a_rival_has_the_units(
    leaders: Leaders, stage: Stage
) -> None:
    with story(leaders, stage, 2) as told:
        gate = told.first.freezes_at(CONFIRM)
        told.alice.book("sprint", units=2)
        gate.wait_reached(DEADLINE_S)
        told.cancel("sprint")
        told.alice.book("rival", units=2)
        told.frozen(gate)
        told.alice.reaches("rival", "Active")
        told.thaw(gate)
        assert not told.landed(gate)
        assert reading.phase(told.alice.reservation("sprint")) == "Canceled"
        assert reading.phase(told.alice.reservation("rival")) == "Active"


def test_late_confirmation_misses_after_a_later_round_of_the_same_leader_decided_otherwise(
    leaders: Leaders, stage: Stage
) -> None:
    """The network keeps the first round's promise back until its sender has given up on it and decided again."""
    with story(leaders, stage, 2) as told:
        told.alice.book("base", units=1)
        told.alice.reaches("base", "Active")
        late = told.first.is_held_up_at(_of("sprint", CONFIRM))
        denial = told.first.is_held_up_at(_of("sprint", DENY))
        told.alice.book("sprint", units=1)
        late.wait_reached(DEADLINE_S)
        told.change("base", units=2)
        until(lambda: told.granted("base")["units"] == 2, DEADLINE_S, "what stands is changed before anything new")
        denial.wait_reached(DEADLINE_S)
        told.let_land(late)
        denial.open()
        told.alice.reaches("sprint", "Denied")
        assert not told.landed(late)


def test_units_that_one_reservation_gives_back_are_promised_only_once_that_is_written(
    leaders: Leaders, stage: Stage
) -> None:
    with story(leaders, stage, 3) as told:
        second = leaders.other(told.first)
        for name, units in (("giver", 2), ("taker", 1)):
            told.alice.book(name, units=units)
            told.alice.reaches(name, "Active")
        told.first.replica.child.kill()
        told.change("giver", units=1)
        told.change("taker", units=2)
        gate = second.is_held_up_at(_of("giver", APPLY))
        gate.wait_reached(DEADLINE_S)
        never(lambda: told.granted("taker")["units"] == 2, 1.0, "the units are promised twice")
        gate.open()
        until(lambda: told.granted("taker")["units"] == 2, DEADLINE_S, "the taker has got them")


def test_units_of_a_cancelled_reservation_are_promised_only_once_its_phase_says_so(
    leaders: Leaders, stage: Stage
) -> None:
    with story(leaders, stage, 2) as told:
        told.alice.book("sprint", units=2)
        told.alice.reaches("sprint", "Active")
        gate = told.first.is_held_up_at(_of("sprint", Write(RESERVATION, '"Canceled"')))
        told.cancel("sprint")
        gate.wait_reached(DEADLINE_S)
        told.alice.book("rival", units=2)
        never(lambda: _judged(told.alice.reservation("rival")), 1.5, "the rival is judged on what is changing")
        gate.open()
        told.alice.reaches("rival", "Active")


def test_late_extension_misses_after_it_was_taken_back_and_a_rival_got_the_hours(
    leaders: Leaders, stage: Stage
) -> None:
    with story(leaders, stage, 2) as told:
        told.alice.book("sprint", units=2, duration=timedelta(hours=1))
        told.alice.reaches("sprint", "Active")
        before = told.granted("sprint")
        gate = told.first.freezes_at(APPLY)
        told.change("sprint", duration="2h")
        gate.wait_reached(DEADLINE_S)
        told.change("sprint", duration="1h")
        told.alice.book("rival", units=2, start=reading.instant(before["end"]))
        told.frozen(gate)
        told.alice.reaches("rival", "Confirmed")
        told.thaw(gate)
        assert not told.landed(gate)
        assert told.granted("sprint") == before


# Claim


@pytest.mark.parametrize("when", ["before", "after"])
def test_claim_lands_once_though_two_leaders_made_it(when: When, leaders: Leaders, stage: Stage) -> None:
    with story(leaders, stage, 2) as told:
        told.alice.create_pod("trainer-0")
        gate = told.first.freezes_at(CLAIM, when)
        told.alice.book("sprint", units=2)
        told.frozen(gate)
        told.alice.runs("trainer-0")
        told.thaw(gate)
        told.eventually_claimed_by("trainer-0")


def test_late_claim_is_refused_once_its_reservation_was_cancelled(leaders: Leaders, stage: Stage) -> None:
    with story(leaders, stage, 2) as told:
        told.alice.create_pod("trainer-0")
        gate = told.first.freezes_at(CLAIM)
        told.alice.book("sprint", units=2)
        gate.wait_reached(DEADLINE_S)
        told.cancel("sprint")
        told.frozen(gate)
        told.alice.reaches("sprint", "Canceled")
        told.alice.book("rival", units=2, pods={"matchLabels": {"team": "other"}})
        told.alice.reaches("rival", "Active")
        told.thaw(gate)
        assert not told.landed(gate)
        assert told.claims("sprint") == {}
        told.alice.waits_for("trainer-0", "NoReservation")


def test_late_claim_of_a_pod_that_is_over_is_dropped_again(leaders: Leaders, stage: Stage) -> None:
    with story(leaders, stage, 1) as told:
        told.alice.create_pod("trainer-0")
        gate = told.first.freezes_at(CLAIM)
        told.alice.book("sprint", units=1)
        told.frozen(gate)
        told.alice.runs("trainer-0")
        told.alice.admin.delete("pods", "trainer-0", told.alice.namespace, grace_s=0)
        told.eventually_claimed_by()
        told.thaw(gate)
        assert told.landed(gate)
        told.eventually_claimed_by()


def test_late_claim_is_given_back_when_its_pod_was_let_in_elsewhere(leaders: Leaders, stage: Stage) -> None:
    with story(leaders, stage, 2) as told:
        told.alice.create_pod("trainer-0")
        gate = told.first.freezes_at(CLAIM)
        told.alice.book("sprint", units=1)
        gate.wait_reached(DEADLINE_S)
        use_other = {"metadata": {"annotations": {keys.USE_RESERVATION: "other"}}}
        told.alice.client.patch("pods", "trainer-0", use_other, told.alice.namespace)
        told.alice.book("other", units=1)
        told.frozen(gate)
        told.alice.runs("trainer-0")
        told.thaw(gate)
        assert told.landed(gate)
        told.eventually_claimed_by("trainer-0", name="other")
        until(lambda: told.claims("sprint") == {}, DEADLINE_S, "the late claim is given back")


def test_late_claim_never_lands_in_a_reservation_created_anew_under_the_same_name(
    leaders: Leaders, stage: Stage
) -> None:
    with story(leaders, stage, 1) as told:
        told.alice.create_pod("trainer-0")
        gate = told.first.freezes_at(CLAIM)
        told.alice.book("sprint", units=1)
        gate.wait_reached(DEADLINE_S)
        told.alice.client.delete(RESERVATIONS, "sprint", told.alice.namespace)
        told.alice.book("sprint", units=1, pods={"matchLabels": {"team": "other"}})
        told.frozen(gate)
        told.alice.reaches("sprint", "Active")
        told.thaw(gate)
        assert not told.landed(gate)
        assert told.claims() == {}
        told.alice.waits_for("trainer-0", "NoReservation")


# Opening patch


@pytest.mark.parametrize("when", ["before", "after"])
def test_pod_is_opened_once_though_two_leaders_open_it(when: When, leaders: Leaders, stage: Stage) -> None:
    with story(leaders, stage, 2) as told:
        told.alice.create_pod("trainer-0")
        gate = told.first.freezes_at(OPEN, when)
        told.alice.book("sprint", units=2)
        told.frozen(gate)
        told.alice.runs("trainer-0")
        told.thaw(gate)
        assert told.landed(gate) is (when == "after")
        told.eventually_claimed_by("trainer-0")


def test_late_opening_misses_once_the_claim_was_withdrawn(leaders: Leaders, stage: Stage) -> None:
    with story(leaders, stage, 1) as told:
        told.alice.create_pod("trainer-0")
        gate = told.first.freezes_at(OPEN)
        told.alice.book("sprint", units=1)
        gate.wait_reached(DEADLINE_S)
        told.cancel("sprint")
        told.frozen(gate)
        until(lambda: told.claims("sprint") == {}, DEADLINE_S, "the claim is withdrawn")
        told.thaw(gate)
        assert not told.landed(gate)
        assert reading.held(told.alice.pod("trainer-0"))
        told.alice.waits_for("trainer-0", "NoReservation")


def test_late_opening_misses_a_pod_created_anew_and_the_claim_of_the_deleted_one_is_dropped(
    leaders: Leaders, stage: Stage
) -> None:
    with story(leaders, stage, 1) as told:
        told.alice.create_pod("trainer-0")
        gate = told.first.freezes_at(OPEN)
        told.alice.book("sprint", units=1)
        gate.wait_reached(DEADLINE_S)
        told.alice.admin.delete("pods", "trainer-0", told.alice.namespace, grace_s=0)
        told.frozen(gate)
        told.eventually_claimed_by()
        told.alice.create_pod("trainer-0")
        told.thaw(gate)
        assert not told.landed(gate)
        told.eventually_claimed_by("trainer-0")


def test_claim_of_a_pod_that_is_deleted_while_it_is_opened_is_dropped_by_the_same_leader(
    leaders: Leaders, stage: Stage
) -> None:
    with story(leaders, stage, 1) as told:
        told.alice.create_pod("trainer-0")
        gate = told.first.is_held_up_at(OPEN)
        told.alice.book("sprint", units=1)
        gate.wait_reached(DEADLINE_S)
        told.alice.reaches("sprint", "Active")
        until(lambda: _is_quiet(told.first), DEADLINE_S, "the leader has nothing else to write")
        told.alice.admin.delete("pods", "trainer-0", told.alice.namespace, grace_s=0)
        gate.open()
        told.eventually_claimed_by()


# Claim drop


@pytest.mark.parametrize("when", ["before", "after"])
def test_late_drop_takes_nothing_from_the_pod_that_got_the_units(when: When, leaders: Leaders, stage: Stage) -> None:
    with story(leaders, stage, 1) as told:
        told.alice.hold_open("sprint", units=1)
        told.alice.create_pod("trainer-0")
        told.alice.runs("trainer-0")
        told.alice.create_pod("trainer-1")
        gate = told.first.freezes_at(DROP_CLAIM, when)
        told.alice.admin.delete("pods", "trainer-0", told.alice.namespace, grace_s=0)
        told.frozen(gate)
        told.alice.runs("trainer-1")
        told.thaw(gate)
        told.eventually_claimed_by("trainer-1")


def test_withdrawal_by_a_leader_with_an_old_view_spares_the_claim_of_a_pod_that_runs(
    leaders: Leaders, stage: Stage
) -> None:
    with story(leaders, stage, 2) as told:
        second = leaders.other(told.first)
        opened = f'"namespace":"{told.alice.namespace}".*{keys.BOOKING_REFERENCE}'
        stall = second.proxy.stall_watches("/api/v1/pods", line=opened)
        told.alice.create_pod("trainer-0")
        told.alice.book("sprint", units=1)
        told.alice.runs("trainer-0")
        token = reading.annotations(told.alice.pod("trainer-0"))[keys.CLAIM]
        told.first.replica.child.kill()
        leaders.succeeded(told.first)
        told.cancel("sprint")
        told.alice.reaches("sprint", "Canceled")
        until(lambda: _written(second, "/pods/trainer-0"), DEADLINE_S, "the withdrawal was tried")
        stall.release()
        told.eventually_claimed_by("trainer-0")
        assert set(told.claims()) == {token}


# A watch that stands still


def test_leader_that_hears_of_no_pod_keeps_the_claims_of_those_that_live_and_catches_up_afterwards(
    leaders: Leaders, stage: Stage
) -> None:
    """A minute passes by the leader's clock alone, so that no create can be under way and every token is suspicious."""
    with story(leaders, stage, 3) as told:
        alice, proxy = told.alice, told.first.proxy
        alice.hold_open("sprint", units=3)
        stall = proxy.stall_watches("/api/v1/pods")
        for name in ("trainer-0", "trainer-1"):
            alice.create_pod(name)
            alice.runs(name)
        alice.create_pod("trainer-2", gpus=2)
        assert reading.reason(alice.pod("trainer-2")) == "ReservationFull"
        before = told.claims()
        looks = proxy.rule(in_turn(), method="GET", path=f"/namespaces/{alice.namespace}/pods", times=None)
        proxy.date_shift += timedelta(seconds=90)
        until(
            lambda: _looked_again(told) and looks.fired, DEADLINE_S, "the leader doubts the claims and lists the pods"
        )
        never(lambda: told.claims() != before, 1.0, "the claim of a live pod is dropped")
        alice.admin.delete("pods", "trainer-0", alice.namespace, grace_s=0)
        proxy.date_shift *= 0
        stall.release()
        alice.runs("trainer-2")
        told.eventually_claimed_by("trainer-1", "trainer-2")


def _looked_again(told: Story) -> bool:
    """Have the leader look at the reservation, for its clock alone wakes nobody."""
    told.change("sprint", note=f"looked at {len(told.first.proxy.writes())}")
    return True


def _of(name: str, write: Write) -> Write:
    return Write(write.path.replace("[^/]+", name), write.body)


def _judged(reservation: JsonObject) -> bool:
    return reading.phase(reservation) not in ("Pending", "Confirming")


def _written(candidate: Candidate, path: str) -> bool:
    return any(path in exchange.path and exchange.status for exchange in candidate.writes())


def _is_quiet(candidate: Candidate) -> bool:
    before = len(candidate.writes())
    try:
        never(lambda: len(candidate.writes()) > before, 1.0, "a write")
    except AssertionError:
        return False
    return True
