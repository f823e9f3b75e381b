"""From nothing to a working product in under a minute, and away again without a trace."""

from __future__ import annotations

from collections.abc import Sequence

from tests.chart.helm import NAMESPACE, RELEASE
from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.kubectl import create
from tests.e2e.stage import DEADLINE_S
from tests.kind.installation import CRDS, DEPLOYMENTS, LEASE, Installation, gated
from tests.kind.running import Record
from tests.kind.stage import KindStage

READY_S = 60.0
OURS = "app.kubernetes.io/name=gpu-reservations"
POLICIES = ("mutatingadmissionpolicies", "validatingadmissionpolicies")
CLUSTER_WIDE = (
    *(f"{kind}.admissionregistration.k8s.io" for kind in POLICIES),
    *(f"{kind[:-3]}ybindings.admissionregistration.k8s.io" for kind in POLICIES),
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "flowschemas.flowcontrol.apiserver.k8s.io",
    "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io",
)
NAMESPACED = (
    "deployments.apps",
    "services",
    "pods",
    "secrets",
    "serviceaccounts",
    "configmaps",
    "jobs.batch",
    "networkpolicies.networking.k8s.io",
    "poddisruptionbudgets.policy",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "resourcequotas",
)


def test_everything_is_ready_within_a_minute(installation: Installation, record_property: Record) -> None:
    record_property("seconds", f"{installation.ready_after_s:.0f}")
    assert installation.ready_after_s < READY_S
    assert installation.restarts() == 0
    assert {len(installation.pods(name)) for name in DEPLOYMENTS} == {2}


def test_replicas_are_on_different_nodes(installation: Installation) -> None:
    nodes = [{reading.node(pod) for pod in installation.pods(name)} for name in DEPLOYMENTS]
    assert [len(each) for each in nodes] == [2, 2]


def test_helm_test_is_green(installation: Installation) -> None:
    assert "Succeeded" in installation.helm("test", RELEASE)


def test_helm_test_is_green_with_a_class_that_holds(stage: KindStage) -> None:
    assert "Succeeded" in stage.installation.helm("test", RELEASE)


def test_tenant_who_creates_a_pod_reads_why_it_waits(stage: KindStage) -> None:
    alice = stage.tenant()
    printed = create(alice, alice.manifest("trainer-0"))
    assert "Warning: held: " in printed
    assert "pod/trainer-0 created" in printed
    alice.waits_for("trainer-0", "NoReservation")


def test_uninstall_leaves_the_kinds_and_no_gate(stage: KindStage) -> None:
    installation = stage.installation
    alice = stage.tenant()
    alice.hold_open()
    alice.create_pod("running")
    alice.runs("running")
    alice.create_pod("held-1")
    alice.create_pod("held-2")
    assert sorted(gated(stage.kind)) == ["held-1", "held-2"]
    try:
        installation.uninstall()
        assert list(gated(stage.kind)) == []
        assert _leavings(installation) == list(CRDS)
        assert reading.phase(alice.pod("running")) == "Running"
        # Without the taint they are ordinary pods.
        stage.admin.patch("nodes", stage.kind.nodes.worker, {"spec": {"taints": []}})
        alice.runs("held-1")
        alice.runs("held-2")
    finally:
        stage.close()
        installation.remove_leavings()
        installation.install()


def _leavings(installation: Installation) -> Sequence[str]:
    """Whatever is ours and still there, by name."""
    admin = installation.admin
    found = [str(entry["metadata"]["name"]) for key in CLUSTER_WIDE for entry in admin.items(key, labels=OURS)]
    for key in NAMESPACED:
        found += [f"{key}/{entry['metadata']['name']}" for entry in admin.items(key, NAMESPACE, labels=OURS)]
    crds = admin.items("customresourcedefinitions.apiextensions.k8s.io")
    ours = [str(crd["metadata"]["name"]) for crd in crds if crd["spec"]["group"] == "gpures.dev"]
    return [*found, *sorted(ours)]


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
