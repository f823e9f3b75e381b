"""A pod that was let in and that no node took starts at no later time, outside of every window of its holder."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S, Stage, Tenant
from tests.e2e.workloads import a_job

pytestmark = pytest.mark.controlplane

WINDOW = timedelta(seconds=10)
SELECTOR = {"example.com/bait": "laid"}
REPLACED_S = 60.0
"""A Job waits ten seconds and more before it makes a new pod for one that it lost."""


def test_pod_that_no_node_took_is_deleted_when_its_window_ends_and_never_runs(stage: Stage) -> None:
    stage.open(4)
    alice, bob = stage.tenant("alice"), stage.tenant("bob")
    alice.hold_open(units=2, duration=WINDOW)
    job = a_job(alice, "patient")
    job["spec"]["template"]["spec"]["nodeSelector"] = SELECTOR
    alice.client.create(job, namespace=alice.namespace)
    alice.client.create(alice.manifest("bare", spec={"nodeSelector": SELECTOR}))
    first = until(lambda: _of_job(alice), DEADLINE_S, "the Job has a pod")
    assert reading.let_in(first)
    assert reading.let_in(alice.pod("bare"))

    name, uid = first["metadata"]["name"], first["metadata"]["uid"]
    until(lambda: stage.admin.find("pods", "bare", alice.namespace) is None, DEADLINE_S, "the bare pod is gone")
    second = until(lambda: _of_job(alice, other_than=uid), REPLACED_S, "the Job has another pod")
    assert reading.phase(alice.reservation()) == "Ended"
    assert (reading.held(second), reading.reason(second)) == (True, "NoReservation")
    told = alice.event("Pod", name, "NotPlaced")
    assert (told["type"], "Job/patient makes a new one" in told["message"]) == ("Warning", True)
    assert alice.event("Job", "patient", "NotPlaced")["message"].startswith("no node took pod ")
    assert "create it again" in alice.event("Pod", "bare", "NotPlaced")["message"]

    # Bob's pod shows that the scheduler knows the label by then.
    stage.admin.patch("nodes", stage.nodes[0], {"metadata": {"labels": SELECTOR}})
    bob.hold_open("own", units=1)
    bob.create_pod("witness", spec={"nodeSelector": SELECTOR})
    bob.runs("witness")
    assert [reading.node(pod) for pod in alice.pods()] == [""]
    if stage.audit is not None:
        assert stage.audit.writes("pods", namespace=alice.namespace, subresource="binding") == []


def _of_job(tenant: Tenant, other_than: str = "") -> JsonObject | None:
    found = [pod for pod in tenant.pods("app=patient") if pod["metadata"]["uid"] != other_than]
    return found[0] if found else None
