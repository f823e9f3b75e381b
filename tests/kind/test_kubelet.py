"""What only a real kubelet shows: pods that are told to go, and whether they go."""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S
from tests.kind.installation import Installation
from tests.kind.running import Record
from tests.kind.stage import KindStage, KindTenant

GRACE_S = 6
SLACK_S = 10
EVICTIONS = 20
LIVENESS_S = 90.0
"""Three failures of 10 s each, and 30 s of grace for who does not listen."""
RUNS_FOR = "10s"
"""Long enough to be seen running before it ends by itself."""


@pytest.mark.kind
def test_pod_that_ignores_sigterm_is_gone_within_its_grace(stage: KindStage, record_property: Record) -> None:
    alice = stage.tenant()
    alice.hold_open(units=8)
    alice.create_pod("stubborn", gpus=8, args=("ignore",), spec={"terminationGracePeriodSeconds": GRACE_S})
    alice.runs("stubborn")
    alice.create_pod("next", gpus=8)
    alice.waits_for("next", "ReservationFull")
    started = time.monotonic()
    alice.evict("stubborn")
    alice.gone("stubborn", GRACE_S + SLACK_S)
    took = time.monotonic() - started
    record_property("seconds", f"{took:.1f} of {GRACE_S}")
    # It did ignore the signal.
    assert took >= GRACE_S - 1
    # And its units are the next one's.
    alice.runs("next")


@pytest.mark.kind
def test_job_that_forgives_disruptions_completes_after_twenty_evictions(
    stage: KindStage, record_property: Record
) -> None:
    alice = stage.tenant()
    alice.hold_open(units=EVICTIONS)
    alice.client.create(_forgiving_job(alice, "training"), namespace=alice.namespace)
    started = time.monotonic()
    first: set[str] = set()
    until(lambda: _evicted(alice, "training", first), 3 * DEADLINE_S, "the first pod of every index is evicted")
    until(lambda: _completed(alice, "training"), 8 * DEADLINE_S, "the Job completes")
    record_property("seconds", f"{time.monotonic() - started:.0f}")
    pods = alice.pods("app=training")
    assert {reading.phase(pod) for pod in pods if pod["metadata"]["name"] not in first} == {"Succeeded"}
    status = alice.admin.get("jobs.batch", "training", alice.namespace)["status"]
    assert (status["succeeded"], status.get("failedIndexes", "")) == (EVICTIONS, "")


def test_node_that_is_drained_and_comes_back(stage: KindStage) -> None:
    alice = stage.tenant()
    alice.hold_open(units=2)
    deployment = _deployment(alice, "serving")
    alice.client.create(deployment, namespace=alice.namespace)
    _running_pod(alice, "serving")
    worker = stage.kind.nodes.worker
    try:
        stage.kind.kubectl(
            "drain", worker, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=90s", deadline_s=120
        )
        for name in ("gpures-webhook", "gpures-reconciler"):
            stage.installation.wait_ready(name)
        assert not [pod for pod in alice.pods() if reading.phase(pod) == "Running"]
    finally:
        stage.kind.kubectl("uncordon", worker)
    _running_pod(alice, "serving", 2 * DEADLINE_S)


def test_webhook_that_hangs_is_taken_out_of_the_service_and_started_anew(
    installation: Installation, record_property: Record
) -> None:
    installation.ensure()
    name = str(installation.pods("gpures-webhook")[0]["metadata"]["name"])
    started = time.monotonic()
    installation.freeze(name)
    until(lambda: not _ready(installation, name), DEADLINE_S, "the readiness probe notices")
    record_property("seconds until it gets no reviews", f"{time.monotonic() - started:.0f}")
    until(
        lambda: _restarts(installation, name) and _ready(installation, name), LIVENESS_S, "the kubelet starts it anew"
    )
    record_property("seconds", f"{time.monotonic() - started:.0f}")


def _forgiving_job(tenant: KindTenant, name: str) -> JsonObject:
    """Each index once: between the attempts of one index the Job waits longer and longer, up to ten minutes."""
    rules = [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
    spec = {
        "completionMode": "Indexed",
        "completions": EVICTIONS,
        "parallelism": EVICTIONS,
        "backoffLimitPerIndex": 0,
        "podFailurePolicy": {"rules": rules},
        "template": _template(tenant, name, args=(RUNS_FOR,), spec={"restartPolicy": "Never"}),
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def _ready(installation: Installation, name: str) -> bool:
    pod = next(pod for pod in installation.pods() if pod["metadata"]["name"] == name)
    return bool(reading.condition(pod, "Ready").get("status") == "True")


def _restarts(installation: Installation, name: str) -> int:
    pod = next(pod for pod in installation.pods() if pod["metadata"]["name"] == name)
    return sum(int(status["restartCount"]) for status in pod["status"]["containerStatuses"])


def _deployment(tenant: KindTenant, name: str) -> JsonObject:
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": _template(tenant, name)}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def _template(tenant: KindTenant, name: str, **fields: Any) -> JsonObject:
    manifest = tenant.manifest(name, labels={"app": name}, **fields)
    return {"metadata": {"labels": manifest["metadata"]["labels"]}, "spec": manifest["spec"]}


def _running_pod(tenant: KindTenant, app: str, deadline_s: float = 2 * DEADLINE_S) -> str:
    """Name of the pod of an owner that runs and is not on its way out."""

    def running() -> str:
        found = [
            str(pod["metadata"]["name"])
            for pod in tenant.pods(f"app={app}")
            if reading.phase(pod) == "Running" and "deletionTimestamp" not in pod["metadata"]
        ]
        return found[0] if found else ""

    return until(running, deadline_s, f"a pod of {app} runs")


def _evicted(tenant: KindTenant, app: str, known: set[str]) -> bool:
    """Evict whoever has come to run, one pod of each index; `known` grows."""
    indices = {name.split("-")[1] for name in known}
    for pod in tenant.pods(f"app={app}"):
        name = str(pod["metadata"]["name"])
        if reading.phase(pod) == "Running" and name.split("-")[1] not in indices:
            tenant.evict(name)
            known.add(name)
    return len(known) == EVICTIONS


def _completed(tenant: KindTenant, name: str) -> bool:
    job = tenant.admin.get("jobs.batch", name, tenant.namespace)
    return reading.condition(job, "Complete").get("status") == "True"
