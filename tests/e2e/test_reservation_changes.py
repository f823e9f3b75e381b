"""A reservation is changed while pods run under it, wait for it and are being let in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta

import pytest

from common.domain import keys
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import never, until
from tests.e2e import reading
from tests.e2e.history import History
from tests.e2e.stage import RESERVATIONS, Stage, Tenant

pytestmark = pytest.mark.controlplane

DEADLINE_S = 30.0


@contextmanager
def audited(stage: Stage, units: int) -> Iterator[Tenant]:
    """A tenant whose running pods are never deleted by us, whatever happens to the reservation."""
    stage.open(units)
    alice = stage.tenant()
    with History(stage.admin, stage.gpu_class, units):
        yield alice
    if stage.audit is None:
        return
    ours = [reading.RECONCILER, reading.WEBHOOK]
    writes = stage.audit.writes("pods", namespace=alice.namespace)
    assert not [
        write for write in writes if write.by in ours and (write.verb == "delete" or write.subresource == "eviction")
    ]


def change(tenant: Tenant, name: str = "sprint", **spec: object) -> None:
    tenant.client.patch(RESERVATIONS, name, {"spec": spec}, tenant.namespace)


def judged(tenant: Tenant, name: str = "sprint") -> JsonObject:
    """The condition Applied, once the last change of the spec was judged."""

    def condition() -> JsonObject | None:
        reservation = tenant.reservation(name)
        applied = reading.condition(reservation, "Applied")
        newest = applied.get("observedGeneration") == reservation["metadata"]["generation"]
        return applied if newest and applied["status"] != "Unknown" else None

    return until(condition, DEADLINE_S, f"the change of {name} is judged")


def as_it_was(tenant: Tenant, before: JsonObject) -> None:
    """The very pod still runs, and nothing that a person or a program reads on it has changed."""
    now = tenant.pod(before["metadata"]["name"])
    assert reading.phase(now) == "Running"
    for part in ("uid", "annotations", "labels"):
        assert now["metadata"][part] == before["metadata"][part]
    assert now["spec"] == before["spec"]
    assert "deletionTimestamp" not in now["metadata"]


def tokens(tenant: Tenant, *pods: str) -> set[str]:
    return {reading.annotations(tenant.pod(pod))[keys.CLAIM] for pod in pods}


def ends(tenant: Tenant, name: str) -> None:
    tenant.admin.delete("pods", name, tenant.namespace, grace_s=0)


def test_cancelling_tells_who_waits_leaves_who_runs_and_keeps_the_claim_until_the_pod_ends(stage: Stage) -> None:
    with audited(stage, 2) as alice:
        alice.hold_open(units=2)
        alice.create_pod("runs", gpus=2)
        before = alice.runs("runs")
        alice.create_pod("waits")
        assert reading.reason(alice.pod("waits")) == "ReservationFull"
        change(alice, cancel=True)
        alice.reaches("sprint", "Canceled")
        alice.waits_for("waits", "NoReservation")
        as_it_was(alice, before)
        assert "granted" not in alice.reservation()["status"]
        assert set(reading.claims(alice.reservation())) == tokens(alice, "runs")
        ends(alice, "runs")
        until(lambda: not reading.claims(alice.reservation()), DEADLINE_S, "the claim goes with its pod")


def test_extending_an_open_reservation_moves_its_end_for_everybody(stage: Stage) -> None:
    with audited(stage, 2) as alice:
        end = (stage.now() + timedelta(hours=2)).replace(second=0)
        alice.hold_open(units=2, duration=None, end=f"{end:%Y-%m-%dT%H:%M:%SZ}")
        alice.create_pod("runs", gpus=2)
        before = alice.runs("runs")
        alice.create_pod("waits")
        longer = end + timedelta(hours=4)
        change(alice, end=f"{longer:%Y-%m-%dT%H:%M:%SZ}")
        applied = judged(alice)
        assert (applied["status"], applied["reason"]) == ("True", "Applied")
        reservation = alice.reservation()
        assert reading.instant(reservation["status"]["granted"]["end"]) == longer
        assert reading.instant(reservation["status"]["guaranteedUntil"]) == longer
        expected = f"sprint extended: yours until {longer:%Y-%m-%d %H:%M} UTC (2 × {stage.gpu_class})"
        assert alice.event("GPUReservation", "sprint", "Extended")["message"] == expected
        waiting = alice.waits_for("waits", "ReservationFull")
        assert reading.instant(reading.annotations(waiting)[keys.HELD_UNTIL]) == longer
        as_it_was(alice, before)


def test_refused_extension_leaves_the_promise_and_says_the_longest_possible_end(stage: Stage) -> None:
    with audited(stage, 2) as alice:
        day = (stage.now() + timedelta(days=1)).replace(minute=0, second=0)
        nine, thirteen, eighteen = (day.replace(hour=hour) for hour in (9, 13, 18))
        granted = alice.book_ahead("sprint", 2, nine, duration=timedelta(hours=4))["status"]["granted"]
        alice.book_ahead("rival", 2, eighteen)
        alice.create_pod("waits", annotations={keys.USE_RESERVATION: "sprint"})
        change(alice, duration="11h")
        applied = judged(alice)
        expected = (
            f"not extended to 20:00: 0 {stage.gpu_class} free from 18:00 UTC; longest possible end 18:00; "
            "yours until 13:00 UTC as before"
        )
        assert (applied["status"], applied["reason"], applied["message"]) == ("False", "NoCapacity", expected)
        assert alice.reservation()["status"]["granted"] == granted
        assert reading.instant(granted["end"]) == thirteen
        assert alice.event("GPUReservation", "sprint", "NotApplied")["message"] == expected
        waiting = alice.waits_for("waits", "WaitingForReservation")
        assert reading.instant(reading.annotations(waiting)[keys.HELD_UNTIL]) == nine


def test_shortening_moves_the_end_and_an_end_before_now_ends_it_at_once(stage: Stage) -> None:
    with audited(stage, 2) as alice:
        start = reading.instant(alice.hold_open(units=2)["status"]["granted"]["start"])
        alice.create_pod("runs", gpus=2)
        before = alice.runs("runs")
        alice.create_pod("waits")
        change(alice, duration="30m")
        assert judged(alice)["status"] == "True"
        assert reading.instant(alice.reservation()["status"]["granted"]["end"]) == start + timedelta(minutes=30)
        waiting = alice.waits_for("waits", "ReservationFull")
        assert reading.instant(reading.annotations(waiting)[keys.HELD_UNTIL]) == start + timedelta(minutes=30)
        change(alice, duration="1s")
        alice.reaches("sprint", "Ended")
        alice.waits_for("waits", "NoReservation")
        as_it_was(alice, before)
        assert set(reading.claims(alice.reservation())) == tokens(alice, "runs")


def test_resizing_up_lets_the_next_pod_in_and_beyond_the_class_is_refused_with_numbers(stage: Stage) -> None:
    with audited(stage, 3) as alice:
        granted = alice.hold_open(units=1)["status"]["granted"]
        alice.create_pod("runs")
        before = alice.runs("runs")
        alice.create_pod("waits", gpus=2)
        assert reading.reason(alice.pod("waits")) == "ReservationTooSmall"
        change(alice, units=4)
        applied = judged(alice)
        assert (applied["status"], applied["reason"]) == ("False", "NoCapacity")
        assert applied["message"].startswith(f"not changed to 4 units: 3 {stage.gpu_class} free from ")
        assert alice.reservation()["status"]["granted"] == granted
        change(alice, units=3)
        alice.runs("waits")
        as_it_was(alice, before)


def test_resizing_below_what_is_used_stops_nobody_and_lets_nobody_in_before_there_is_room(stage: Stage) -> None:
    with audited(stage, 3) as alice:
        alice.hold_open(units=3)
        for name in ("first", "second", "third"):
            alice.create_pod(name)
        before = [alice.runs(name) for name in ("first", "second", "third")]
        change(alice, units=1)
        assert judged(alice)["status"] == "True"
        assert alice.reservation()["status"]["granted"]["units"] == 1
        alice.create_pod("waits")
        for pod in before:
            as_it_was(alice, pod)
        alice.book("rival", units=1)
        alice.reaches("rival", "Denied")
        ends(alice, "first")
        ends(alice, "second")
        alice.waits_for("waits", "ReservationFull")
        assert set(reading.claims(alice.reservation())) == tokens(alice, "third")
        ends(alice, "third")
        alice.runs("waits")


def test_reservation_created_anew_under_its_name_inherits_no_claim(stage: Stage) -> None:
    with audited(stage, 4) as alice:
        old = alice.hold_open(units=2)
        alice.create_pod("runs", gpus=2)
        before = alice.runs("runs")
        alice.create_pod("waits")
        alice.client.delete(RESERVATIONS, "sprint", alice.namespace)
        alice.book("sprint", units=2)
        alice.runs("waits")
        new = alice.reservation()
        assert new["metadata"]["uid"] != old["metadata"]["uid"]
        assert set(reading.claims(new)) == tokens(alice, "waits")
        as_it_was(alice, before)


def test_waiting_pods_hear_that_their_reservation_was_deleted(stage: Stage) -> None:
    with audited(stage, 2) as alice:
        alice.hold_open(units=1)
        alice.create_pod("runs")
        before = alice.runs("runs")
        alice.create_pod("waits")
        alice.create_pod("insists", annotations={keys.USE_RESERVATION: "sprint"})
        alice.client.delete(RESERVATIONS, "sprint", alice.namespace)
        alice.waits_for("waits", "NoReservation")
        alice.waits_for("insists", "ReservationNotFound")
        as_it_was(alice, before)


def _cancel(tenant: Tenant) -> None:
    change(tenant, cancel=True)


def _shrink(tenant: Tenant) -> None:
    change(tenant, units=2)


def _end(tenant: Tenant) -> None:
    change(tenant, duration="1s")


def _create_anew(tenant: Tenant) -> None:
    tenant.client.delete(RESERVATIONS, "sprint", tenant.namespace)
    tenant.book("sprint", units=6)


@pytest.mark.parametrize("act", [_cancel, _shrink, _end, _create_anew], ids=["cancel", "shrink", "end", "anew"])
def test_change_while_claims_are_in_flight_strands_no_claim_and_overruns_no_promise(
    act: Callable[[Tenant], None], stage: Stage
) -> None:
    with audited(stage, 8) as alice:
        alice.hold_open(units=6)
        for number in range(3):
            alice.create_pod(f"early-{number}", annotations={keys.USE_RESERVATION: "second"})
        with ThreadPoolExecutor(8) as pool:
            creates = [pool.submit(alice.create_pod, f"trainer-{number}") for number in range(16)]
            creates[2].result()
            act(alice)
        for create in creates:
            create.result()
        alice.book("second", units=2)

        until(lambda: _at_rest(alice), DEADLINE_S, "claims are those of pods that were let in, the others know why")


def _at_rest(tenant: Tenant) -> bool:
    """Nobody is between two states, and nothing changes for a while."""
    before = _standing(tenant)
    if before is None:
        return False
    try:
        never(lambda: _standing(tenant) != before, 1.0, "a change")
    except AssertionError:
        return False
    return reading.phase(tenant.reservation("second")) == "Active"


def _standing(tenant: Tenant) -> tuple[list[str], set[str]] | None:
    """Claimed tokens and the tokens of pods that were let in, where no claim is twice, no other's, and all are told."""
    pods = tenant.pods()
    carried = {reading.annotations(pod)[keys.CLAIM] for pod in pods if reading.let_in(pod)}
    reservations = tenant.admin.items(RESERVATIONS, tenant.namespace)
    claimed = sorted(token for reservation in reservations for token in reading.claims(reservation))
    told = all(reading.reason(pod) not in ("", "Undecided") for pod in pods if reading.held(pod))
    fine = told and len(claimed) == len(set(claimed)) and set(claimed) <= carried
    return (claimed, carried) if fine else None
