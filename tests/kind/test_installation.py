"""From nothing to a working product in under a minute; its uninstallation is `test_uninstall.py`."""

from __future__ import annotations

import pytest

from tests.chart.helm import NAMESPACE, RELEASE
from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.kubectl import create
from tests.e2e.stage import DEADLINE_S
from tests.kind.installation import DEPLOYMENTS, LEASE, Installation
from tests.kind.running import Record
from tests.kind.stage import KindStage

READY_S = 60.0


@pytest.mark.kind
def test_everything_is_ready_within_a_minute(installation: Installation, record_property: Record) -> None:
    record_property("seconds", f"{installation.ready_after_s:.0f}")
    assert installation.ready_after_s < READY_S
    assert installation.restarts() == 0
    assert {len(installation.pods(name)) for name in DEPLOYMENTS} == {2}


@pytest.mark.kind
def test_replicas_are_on_different_nodes(installation: Installation) -> None:
    nodes = [{reading.node(pod) for pod in installation.pods(name)} for name in DEPLOYMENTS]
    assert [len(each) for each in nodes] == [2, 2]


def test_helm_test_is_green(installation: Installation) -> None:
    assert "Succeeded" in installation.helm("test", RELEASE)


@pytest.mark.kind
def test_helm_test_is_green_with_a_class_that_holds(stage: KindStage) -> None:
    assert "Succeeded" in stage.installation.helm("test", RELEASE)


@pytest.mark.kind
def test_tenant_who_creates_a_pod_reads_why_it_waits(stage: KindStage) -> None:
    alice = stage.tenant()
    printed = create(alice, alice.manifest("trainer-0"))
    assert "Warning: held: " in printed
    assert "pod/trainer-0 created" in printed
    alice.waits_for("trainer-0", "NoReservation")


def test_pods_of_the_product_survive_being_evicted(installation: Installation) -> None:
    before = {str(pod["metadata"]["name"]) for pod in installation.pods()}
    for name in DEPLOYMENTS:
        pod = str(installation.pods(name)[0]["metadata"]["name"])
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
        installation.admin.request("POST", installation.admin.path("pods", NAMESPACE, pod, "eviction"), body=body)
        until(lambda pod=pod: installation.admin.find("pods", pod, NAMESPACE) is None, 60.0, f"{pod} gone")  # type: ignore[misc]
        installation.wait_ready(name)
    until(installation.leader, DEADLINE_S, f"somebody holds {LEASE}")
    assert len(before - {str(pod["metadata"]["name"]) for pod in installation.pods()}) == len(DEPLOYMENTS)


@pytest.mark.kind
def test_namespace_is_restricted_and_what_guards_the_product_is_accepted(installation: Installation) -> None:
    admin = installation.admin
    labels = admin.get("namespaces", NAMESPACE)["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    for kind in ("networkpolicies.networking.k8s.io", "poddisruptionbudgets.policy"):
        assert {str(entry["metadata"]["name"]) for entry in admin.items(kind, NAMESPACE)} == {*DEPLOYMENTS}
