"""What the API server answers to people who reserve: who they are is stamped, limits are refused, what is over goes."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from common.domain import keys
from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S, RESERVATIONS, Stage, refusal
from tests.support.manifests import a_reservation, sent

pytestmark = pytest.mark.controlplane

HOUR = timedelta(hours=1)


def test_who_created_and_who_changed_a_reservation_is_stamped_and_copied(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    bob = alice.log_in("bob@example.com", "edit")
    alice.hold_open(units=1)
    stamps = reading.annotations(alice.reservation())
    assert stamps == {keys.CREATED_BY: alice.user, keys.CHANGED_BY: alice.user}

    bob.patch(RESERVATIONS, "sprint", {"spec": {"units": 2}}, alice.namespace)
    until(lambda: alice.reservation()["status"]["granted"]["units"] == 2, DEADLINE_S, "two units are granted")
    changed = alice.reservation()
    assert reading.annotations(changed) == {keys.CREATED_BY: alice.user, keys.CHANGED_BY: "bob@example.com"}
    status = changed["status"]
    assert (status["createdBy"], status["changedBy"]) == (alice.user, "bob@example.com")


def test_a_stamp_is_never_taken_from_the_request(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    forged = {keys.CREATED_BY: "mallory", keys.CHANGED_BY: "mallory"}
    wanted = sent(a_reservation("sprint", alice.namespace, gpuClass=stage.gpu_class, duration="1h"))
    wanted["metadata"]["annotations"] = forged
    answers = [alice.client.create(wanted)]
    for change in (forged, None):
        body = {"metadata": {"annotations": change}}
        answers.append(alice.client.patch(RESERVATIONS, "sprint", body, alice.namespace))
    real = {keys.CREATED_BY: alice.user, keys.CHANGED_BY: alice.user}
    assert [reading.annotations(answer.object) for answer in answers] == [real, real, real]


@pytest.mark.parametrize(
    ("limits", "asked", "sentence"),
    [
        ({"maxDuration": "2h"}, {"duration": 3 * HOUR}, "3h asked, maxDuration is 2h"),
        ({"maxUnitsPerReservation": 2}, {"units": 3}, "3 units asked, maxUnitsPerReservation is 2"),
        ({"maxAhead": "2h"}, {"ahead": 3 * HOUR}, "maxAhead is 2h: the latest start now is "),
        ({"namespaces": ["others"]}, {}, "may not reserve "),
        ({"maxUnitsPerNamespace": 3}, {"units": 2}, "maxUnitsPerNamespace is 3"),
        ({"maxReservationsPerNamespace": 1}, {}, " reservation, maxReservationsPerNamespace is 1"),
    ],
    ids=[
        "maxDuration",
        "maxUnitsPerReservation",
        "maxAhead",
        "namespaces",
        "maxUnitsPerNamespace",
        "maxReservationsPerNamespace",
    ],
)
def test_limit_is_refused_at_create_and_in_a_dry_run_with_its_name_and_value(
    stage: Stage, limits: dict[str, Any], asked: dict[str, Any], sentence: str
) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.hold_open("first", units=2)
    stage.limit(limits)
    asked = dict(asked)
    if (ahead := asked.pop("ahead", None)) is not None:
        asked["start"] = stage.now() + ahead
    # The webhook learns of the limit by watching.
    until(lambda: alice.would_refuse("probe", **asked), DEADLINE_S, "the limit is known")
    for dry_run in (False, True):
        error = refusal(partial(alice.book, "second", dry_run=dry_run, **asked))
        assert error.code == 403
        assert error.message.startswith('admission webhook "reservations.gpures.dev" denied the request: ')
        assert sentence in error.message
    assert [item["metadata"]["name"] for item in stage.admin.items(RESERVATIONS, alice.namespace)] == ["first"]


def test_more_than_is_free_is_warned_of_and_then_denied_with_the_same_sentence(stage: Stage) -> None:
    stage.open(4)
    alice, bob = stage.tenant("alice"), stage.tenant("bob")
    start = stage.now() + HOUR
    alice.book_ahead("sprint", 3, start)
    dry = bob.book("big", 2, start=start, dry_run=True)
    reply = bob.book("big", 2, start=start)
    bob.reaches("big", "Denied")

    denied = bob.reservation("big")["status"]
    assert denied["reason"] == "NoCapacity"
    assert reply.warnings == dry.warnings == (denied["message"],)
    assert "only 1 free from " in denied["message"]
    assert "first slot for 2 units × 1h: " in denied["message"]
    assert "alice" not in denied["message"]
    assert "sprint" not in denied["message"]


@pytest.mark.usefixtures("audit_log")
def test_finished_reservation_is_removed_after_keep_finished_and_not_before(stage: Stage) -> None:
    stage.open(4, keepFinished="3s")
    alice = stage.tenant()
    alice.hold_open(units=1)
    alice.client.patch(RESERVATIONS, "sprint", {"spec": {"cancel": True}}, alice.namespace)
    alice.reaches("sprint", "Canceled")
    finished = reading.instant(alice.reservation()["status"]["finishedAt"])
    until(lambda: stage.admin.find(RESERVATIONS, "sprint", alice.namespace) is None, DEADLINE_S, "it is removed")

    stage.cluster.audit.settled()
    removals = stage.cluster.audit.select("gpureservations", "sprint", alice.namespace, verbs=frozenset({"delete"}))
    assert [removal.by for removal in removals] == [reading.RECONCILER]
    assert removals[0].received >= finished + timedelta(seconds=3)


def test_tenants_never_write_the_promise(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.hold_open(units=1)
    more = {"status": {"granted": {"units": 4}}}
    error = refusal(lambda: alice.client.patch(RESERVATIONS, "sprint", more, alice.namespace, subresource="status"))
    assert error.code == 403
    viewer = alice.log_in("carol@example.com", "view")
    assert viewer.get(RESERVATIONS, "sprint", alice.namespace)["status"]["granted"]["units"] == 1
    assert refusal(lambda: viewer.delete(RESERVATIONS, "sprint", alice.namespace)).code == 403
