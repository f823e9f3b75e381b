"""Whoever creates a Job or a Deployment reads at once what its pods will be told; a notebook may ask to be refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from common.domain import keys
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.golden import Zone
from tests.e2e.kubectl import kubectl, tomorrow
from tests.e2e.stage import DEADLINE_S, Stage, Tenant, refusal
from tests.e2e.workloads import a_cron_job, a_deployment, a_job, a_stateful_set

pytestmark = pytest.mark.controlplane

HOUR = timedelta(hours=1)
FORBIDDEN = 403


def warnings(tenant: Tenant, owner: JsonObject, **spec: Any) -> tuple[str, ...]:
    """What its author reads; a dry run reads the same."""
    owner = {**owner, "spec": {**owner["spec"], **spec}}
    return tenant.client.create(owner, namespace=tenant.namespace, dry_run=True).warnings


def test_owner_of_pods_before_their_window_is_told_and_a_deadline_that_ends_before_it_too(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    start = tomorrow(stage, 9)
    alice.book_ahead("sprint", 2, start)
    opens = f"held: reservation sprint (2 × {stage.gpu_class}) opens {Zone().day(start)}, in "

    (early,) = warnings(alice, a_job(alice, "train"), activeDeadlineSeconds=600)
    assert early == (
        f"its pods will be held until {Zone().day(start)} (reservation sprint), but activeDeadlineSeconds 600 ends "
        "before that: remove it or submit later"
    )
    for owner in (
        a_job(alice, "train"),
        a_deployment(alice, "web", replicas=2),
        a_stateful_set(alice, "db", replicas=1),
    ):
        (told,) = warnings(alice, owner)
        assert told.startswith(f"its pods will be {opens}")
    (told,) = warnings(alice, a_cron_job(alice, "nightly"))
    assert told.startswith(f"started now, its pods would be {opens}")

    labels = {"gpu-class": stage.gpu_class}
    unlabelled = a_job(alice, "train")
    unlabelled["metadata"]["labels"] = labels
    del unlabelled["spec"]["template"]["metadata"]["labels"]["gpu-class"]
    (told,) = warnings(alice, unlabelled)
    assert told.startswith(f"label gpu-class={stage.gpu_class} is on the Job and not on its pod template")


def test_owner_of_pods_that_get_in_is_told_nothing_and_of_more_than_that_how_many_wait(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.hold_open(units=2)
    assert warnings(alice, a_job(alice, "train", parallelism=2)) == ()
    (told,) = warnings(alice, a_deployment(alice, "web", replicas=3))
    assert told.startswith(f"1 of its 3 pods will be held: ReservationFull: sprint holds 2 {stage.gpu_class}, all used")
    assert reading.claims(alice.reservation()) == {}


def test_only_a_change_of_the_pods_is_told_about(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.book_ahead("sprint", 2, stage.now() + HOUR)
    deployment = a_deployment(alice, "web", replicas=0)
    (told,) = alice.client.create(deployment, namespace=alice.namespace).warnings
    assert told.startswith("started now, its pods would be held: ")

    def changed(body: JsonObject, subresource: str | None = None) -> tuple[str, ...]:
        return alice.client.patch("deployments.apps", "web", body, alice.namespace, subresource=subresource).warnings

    assert changed({"metadata": {"labels": {"team": "a"}}}) == ()
    assert changed({"spec": {"minReadySeconds": 1}}) == ()
    assert changed({"spec": {"replicas": 1}}, "scale") == ()
    (told,) = changed({"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}})
    assert told.startswith("its pods will be held: ")


@pytest.mark.parametrize(("make", "kind"), [(a_job, "Job"), (a_deployment, "Deployment")])
def test_event_of_a_hold_goes_to_the_owner_once(stage: Stage, make: Any, kind: str) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.client.create(make(alice, "web", 3), namespace=alice.namespace)

    def told() -> bool:
        pods = [pod["metadata"]["name"] for pod in alice.pods()]
        return len(pods) == 3 and all(alice.events("Pod", name, "NoReservation") for name in pods)

    until(told, DEADLINE_S, "each pod is told")
    event = alice.event(kind, "web", "NoReservation")
    assert event["message"].startswith(f"namespace {alice.namespace} has no {stage.gpu_class} reservation")
    assert "NoReservation" in kubectl(alice, "events", f"--for={kind.lower()}/web").stdout


def test_bare_pod_that_would_rather_not_wait_is_refused_and_one_of_a_job_waits(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    start = tomorrow(stage, 9)
    alice.book_ahead("sprint", 2, start)
    rather_not = {keys.IF_HELD: keys.REFUSE}
    denied = refusal(lambda: alice.create_pod("notebook", annotations=rather_not))
    assert denied.code == FORBIDDEN
    sentence = f"held: reservation sprint (2 × {stage.gpu_class}) opens {Zone().day(start)}, in "
    assert f"denied the request: refused instead of {sentence}" in denied.message
    assert alice.pods() == []

    job = a_job(alice, "train")
    job["spec"]["template"]["metadata"]["annotations"] = rather_not
    first, second = alice.client.create(job, namespace=alice.namespace).warnings
    assert first.startswith(f"its pods will be {sentence}")
    assert second.startswith(f"annotation {keys.IF_HELD} is for pods without a controller")
    (pod,) = until(alice.pods, DEADLINE_S, "the Job has made its pod")
    assert reading.held(pod)
