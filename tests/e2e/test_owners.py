"""Pods that controllers create get in as bare pods do, and held ones make no controller try again and again."""

from __future__ import annotations

import pytest

from common.domain import keys
from tests.controlplane.polling import never, until
from tests.controlplane.recording import Recorder
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S, Stage, Tenant
from tests.e2e.workloads import a_cron_job, a_daemon_set, a_deployment, a_job, a_stateful_set, is_due

pytestmark = pytest.mark.controlplane

SOME_SECONDS = 5.0


def test_pods_of_every_kind_of_owner_get_in_at_create(stage: Stage) -> None:
    stage.open(8, 8)
    alice = stage.tenant()
    alice.hold_open(units=14)
    with Recorder(stage.admin, "pods", alice.namespace) as recorder:
        for owner in (
            a_deployment(alice, "web", replicas=2),
            a_stateful_set(alice, "db", replicas=2),
            a_job(alice, "once"),
            a_job(alice, "parallel", parallelism=8),
            a_cron_job(alice, "nightly"),
        ):
            alice.client.create(owner, namespace=alice.namespace)
        is_due(alice, "nightly")
        until(lambda: _running(alice) == 14, 2 * DEADLINE_S, "fourteen pods run")
    assert sum(reading.claims(alice.reservation()).values()) == 14
    for pod in alice.pods():
        stored, then = recorder.changes(pod["metadata"]["name"])[:2]
        assert reading.let_in(stored.object), reading.reason(stored.object)
        assert reading.node(then.object)


def test_owners_of_held_pods_create_each_pod_once(stage: Stage) -> None:
    stage.open(8)
    alice = stage.tenant()
    alice.hold_open(units=2)
    alice.create_pod("first", gpus=2)
    # A StatefulSet waits for its first pod before it creates the second one.
    wanted = 1 + 4 + 1 + 8 + 1
    with Recorder(stage.admin, "pods", alice.namespace) as recorder:
        for owner in (
            a_deployment(alice, "web", replicas=4),
            a_stateful_set(alice, "db", replicas=3),
            a_job(alice, "parallel", parallelism=8),
            a_cron_job(alice, "nightly"),
        ):
            alice.client.create(owner, namespace=alice.namespace)
        is_due(alice, "nightly")
        until(lambda: _created(recorder) == wanted, DEADLINE_S, "every owner has created its pods")
        never(lambda: _created(recorder) != wanted, SOME_SECONDS, "a controller creates pods again")
    held = [pod for pod in alice.pods() if pod["metadata"]["name"] != "first"]
    assert {*map(reading.reason, held)} == {"ReservationFull"}
    assert all(map(reading.held, held))
    alice.client.delete("pods", "first", alice.namespace)
    until(lambda: _running(alice) == 2, DEADLINE_S, "two of the held pods run")


def test_rolling_update_on_a_full_booking_is_told_that_its_own_pods_hold_it(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.hold_open(units=2)
    alice.client.create(a_deployment(alice, "web", replicas=2), namespace=alice.namespace)
    until(lambda: _running(alice) == 2, DEADLINE_S, "the old pods run")
    template = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}
    alice.client.patch("deployments.apps", "web", template, alice.namespace)

    def new() -> str | None:
        return next((pod["metadata"]["name"] for pod in alice.pods() if reading.held(pod)), None)

    name = until(new, DEADLINE_S, "a pod of the new version is held")
    told = alice.waits_for(name, "HeldByOwnSibling")
    assert reading.sentence(told).startswith("sprint is used by pods of the same Deployment/web")
    assert alice.event("Pod", name, "HeldByOwnSibling")["message"] == reading.sentence(told)
    assert _running(alice) == 2


@pytest.mark.usefixtures("audit_log")
def test_daemon_set_that_brings_the_toleration_is_refused_and_backs_off(stage: Stage) -> None:
    stage.open(2, 2)
    alice = stage.tenant()
    alice.hold_open(units=4)
    toleration = {"key": keys.TAINT, "value": stage.gpu_class, "effect": "NoSchedule"}
    forged = a_daemon_set(alice, "forged", spec={"tolerations": [toleration]})
    alice.client.create(forged, namespace=alice.namespace)
    until(lambda: _created_by_controllers(alice) >= 2, DEADLINE_S, "a pod for each node is tried")
    # It doubles its pause each time: from some milliseconds to seconds.
    never(lambda: _created_by_controllers(alice) > 15, SOME_SECONDS, "it tries again and again")
    assert alice.pods() == []


def _running(tenant: Tenant) -> int:
    return sum(reading.phase(pod) == "Running" for pod in tenant.pods())


def _created(recorder: Recorder) -> int:
    return sum(change.type == "ADDED" for change in recorder.changes())


def _created_by_controllers(tenant: Tenant) -> int:
    """Attempts, whether they were accepted or not."""
    creates = tenant.stage.cluster.audit.select(
        "pods", namespace=tenant.namespace, verbs=frozenset({"create"}), subresource=""
    )
    return sum(not event.dry_run and event.by.startswith("system:serviceaccount:kube-system:") for event in creates)
