"""Nobody brings their own way onto reserved nodes while webhooks are up; for the rest see `test_webhook_down.py`."""

from __future__ import annotations

import pytest

from common.domain import keys
from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.forging import fifty_forgeries
from tests.e2e.stage import DEADLINE_S, Stage, Tenant, refusal

pytestmark = pytest.mark.controlplane


@pytest.mark.kind
def test_fifty_forged_pods_at_once_are_refused_with_a_sentence(either_stage: Stage) -> None:
    stage = either_stage.open(4)
    alice = stage.tenant()
    alice.hold_open(units=4)
    token = reading.annotations(alice.create_pod("trainer-0").object)[keys.CLAIM]
    refused = fifty_forgeries(alice, token)

    assert {error.code for error in refused} == {403}
    by, _, _ = zip(*(error.message.partition(" denied the request: ") for error in refused), strict=True)
    assert {*by} == {'admission webhook "guard.gpures.dev"'}
    sentences = {error.message.partition(" denied the request: ")[2] for error in refused}
    assert {sentence.partition("(")[0].partition(";")[0] for sentence in sentences} == {
        "toleration gpu-class-reservation is added by the reservation system when a reservation opens",
        "the pod asks for reserved GPUs and tolerates every taint ",
        "annotation gpures.dev/claim is written by the reservation system only",
    }
    assert [pod["metadata"]["name"] for pod in alice.pods()] == ["trainer-0"]
    assert reading.claims(alice.reservation()) == {token: 1}


@pytest.mark.kind
def test_tenant_whose_role_allows_bindings_binds_no_held_pod(stage: Stage) -> None:
    stage.open(2)
    alice = stage.tenant()
    alice.create_pod("trainer-0")
    alice.waits_for("trainer-0", "NoReservation")
    _may_bind(alice)
    target = {"apiVersion": "v1", "kind": "Node", "name": stage.nodes[0]}
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "trainer-0"}, "target": target}
    path = alice.admin.path("pods", alice.namespace, "trainer-0", "binding")

    def sentence() -> str:
        return refusal(lambda: alice.client.request("POST", path, body=binding)).message

    until(lambda: "may not bind pods to nodes" in sentence(), DEADLINE_S, "the fence refuses it, and not the role")
    assert reading.node(alice.pod("trainer-0")) == ""


def _may_bind(tenant: Tenant) -> None:
    group = "rbac.authorization.k8s.io"
    kinds = {"apiVersion": f"{group}/v1", "metadata": {"name": "binds", "namespace": tenant.namespace}}
    rule = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
    subject = {"apiGroup": group, "kind": "User", "name": tenant.user}
    tenant.admin.create({**kinds, "kind": "Role", "rules": [rule]})
    reference = {"apiGroup": group, "kind": "Role", "name": "binds"}
    tenant.admin.create({**kinds, "kind": "RoleBinding", "roleRef": reference, "subjects": [subject]})
