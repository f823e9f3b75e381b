"""Away again without a trace. The last file of a run: whoever needs the product afterwards installs it anew."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.chart.helm import NAMESPACE
from tests.e2e import reading
from tests.kind.installation import CRDS, Installation, gated
from tests.kind.stage import KindStage

pytestmark = pytest.mark.kind

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


def test_uninstall_leaves_the_kinds_and_no_gate(stage: KindStage) -> None:
    installation = stage.installation
    alice = stage.tenant()
    alice.hold_open()
    alice.create_pod("running")
    alice.runs("running")
    alice.create_pod("held-1")
    alice.create_pod("held-2")
    assert sorted(gated(stage.kind)) == ["held-1", "held-2"]
    installation.uninstall()
    assert list(gated(stage.kind)) == []
    assert _leavings(installation) == list(CRDS)
    assert reading.phase(alice.pod("running")) == "Running"
    # Without the taint they are ordinary pods.
    stage.admin.patch("nodes", stage.kind.nodes.worker, {"spec": {"taints": []}})
    alice.runs("held-1")
    alice.runs("held-2")


def _leavings(installation: Installation) -> Sequence[str]:
    """Whatever is ours and still there, by name."""
    admin = installation.admin
    found = [str(entry["metadata"]["name"]) for key in CLUSTER_WIDE for entry in admin.items(key, labels=OURS)]
    for key in NAMESPACED:
        found += [f"{key}/{entry['metadata']['name']}" for entry in admin.items(key, NAMESPACE, labels=OURS)]
    crds = admin.items("customresourcedefinitions.apiextensions.k8s.io")
    ours = [str(crd["metadata"]["name"]) for crd in crds if crd["spec"]["group"] == "gpures.dev"]
    return [*found, *sorted(ours)]
