"""A claim is proved by a run in which it holds, and by no other."""

from __future__ import annotations

import pytest

from tests.demo import plain, proofs
from tests.demo.evidence import Evidence, Record
from tests.demo.proofs import RECONCILER, WEBHOOK, Verdict
from tests.unit.demo.made_up import KUBELET, MadeUp, at, pod, reservation, whole


def failed(run: MadeUp) -> dict[str, str]:
    return {verdict.claim: verdict.detail for verdict in proofs.prove(run.evidence()) if not verdict.holds}


def test_a_run_without_fault_proves_every_claim() -> None:
    assert failed(whole()) == {}


def test_nothing_seen_proves_nothing() -> None:
    verdicts = proofs.prove(Evidence(Record()))
    assert [verdict.claim for verdict in verdicts if verdict.holds] == []


def test_a_write_between_create_and_binding_is_found() -> None:
    run = whole()
    run.wrote("alice/fast", 30.005, KUBELET, pod("alice/fast", token="t-fast"), subresource="status")
    assert list(failed(run)) == ["let in at CREATE: no write to the pod between CREATE and Binding"]


def test_a_second_write_to_a_held_pod_is_found() -> None:
    run = whole()
    run.wrote("alice/early", 20.025, RECONCILER, pod("alice/early", token="t-early"))
    assert failed(run) == {"let in later: by one single write to the pod": "alice/early: 2 writes"}


def test_a_binding_that_was_answered_before_the_opening_write_is_no_fault() -> None:
    run = whole()
    opening = next(event for event in run.audit if event.name == "early" and event.by == RECONCILER)
    run.audit.remove(opening)
    run.audit.append(opening)
    assert failed(run) == {}


@pytest.mark.parametrize(("opened", "told"), [(19.9, "100 ms too early"), (22.0, "2005 ms late")])
def test_a_release_off_its_instant_is_found(opened: float, told: str) -> None:
    run = whole()
    run.let_in_later("alice/other", "t-early", "WaitingForReservation", 18, opened)
    assert told in failed(run)["released when the window opened, never before"]


def test_a_claim_too_many_is_found() -> None:
    run = whole()
    run.seen("reservations", reservation("alice/sprint", {"a": 1, "b": 2}))
    assert failed(run) == {"never more units claimed than granted, at any version": "alice/sprint: 3 of 2"}


def test_a_placed_pod_without_a_claim_is_found() -> None:
    run = whole()
    run.seen("pods", pod("alice/stray", token="t-invented", reservation="sprint", node="gpu-a"))
    assert failed(run) == {
        "placed pods: each with its claim, on a node of its class": "alice/stray has no claim for its units"
    }


def test_a_held_pod_without_a_known_reason_is_found() -> None:
    run = whole()
    run.seen("pods", pod("alice/early", held="Because"))
    assert failed(run) == {"held pods: all with a reason, at every version": "alice/early: 'Because'"}


def test_a_held_pod_with_two_events_is_found() -> None:
    run = whole()
    run.changes["events"] *= 2
    assert failed(run) == {"held for long: one condition and one Event say why": "alice/early has 2 Events"}


def test_a_pod_that_waited_on_after_room_appeared_is_found() -> None:
    run = whole()
    run.record.finished_then.append(("alice/fast", "alice/dark"))
    assert "11200 ms" in failed(run)["full: a finished pod lets the next in"]


def test_a_slot_that_does_not_fit_is_found() -> None:
    run = whole()
    run.record.slot_warnings = ("only 2 free",)
    assert list(failed(run)) == ["booking denied: with the first slot, which a dry run confirms"]


def test_an_answer_without_the_likely_name_is_found() -> None:
    run = whole()
    run.record.typo = ('UnknownGpuClass: no class "hl00"',)
    assert list(failed(run)) == ["typo in the class: answered with the likely name"]


def test_a_pod_that_was_not_let_in_during_the_outage_is_found() -> None:
    run = whole()
    run.record.outage = (at(50), at(51.05))
    assert list(failed(run)) == ["webhooks dead: pods stored as Undecided, and let in"]


def test_a_stored_forgery_is_found() -> None:
    run = whole()
    run.wrote("alice/intruder", 53, "alice", pod("alice/intruder"), verb="create", code=201)
    assert failed(run)["forgeries: refused, with the webhooks dead too"] == "alice/intruder was stored"


def test_a_standby_that_does_not_follow_is_found() -> None:
    run = whole()
    run.changes["leases"] = []
    assert failed(run) == {"leader killed: the standby released the next window": "nobody followed reconciler-0"}


def test_a_webhook_that_writes_to_pods_is_found() -> None:
    run = whole()
    run.wrote("alice/fast", 33, WEBHOOK, pod("alice/fast", token="t-fast"))
    assert list(failed(run)) == ["the webhooks wrote claims only, the reconciler opened the gates"]


def test_the_summary_says_what_failed() -> None:
    found = [Verdict("water is wet", holds=True, detail="n=1"), Verdict("fire is cold", holds=False, detail="38 °C")]
    assert plain.summary(found, "the stage burned down") == [
        "proved  water is wet (n=1)",
        "FAILED  fire is cold (38 °C)",
        "FAILED  the story: the stage burned down",
        "1 of 2 claims proved, and the story broke off",
    ]
