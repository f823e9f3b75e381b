"""The lists of the fence: what they let through, what a slip of the pen does, and what happens without them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.component.builders import DEADLINE_S, class_in_force, pod
from tests.component.fence_scene import lists
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.install import (
    WebhookEndpoint,
    documents,
    install,
    unregister_webhooks,
    webhook_configurations,
)
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

NAME = "lists-h100"
WEBHOOKS = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
OURS = "zz-gpures"
INJECTOR = "system:serviceaccount:cert-manager:cert-manager-cainjector"
RECONCILER = "system:serviceaccount:gpures-system:gpures-reconciler"


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> Iterator[ApiClient]:
    install(control_plane.admin)
    with class_in_force(control_plane.admin, NAME):
        yield control_plane.admin


@pytest.fixture(scope="module")
def ops(admin: ApiClient) -> ApiClient:
    """An administrator with every right, who is on no list."""
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": group, "kind": "Group", "name": "lists-ops"}
    body = {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "lists-ops"}}
    admin.apply(body | {"roleRef": role, "subjects": [subject]})
    client = admin.as_user("ops@example.com", ["lists-ops", "system:authenticated"])
    until(lambda: client.items("namespaces"), DEADLINE_S, "ops may do everything", retry_on=(ApiError,))
    return client


def passes(send: Callable[[], object]) -> bool:
    try:
        send()
    except ApiError as error:
        if "gpures-fence" not in error.message:
            raise
        return False
    return True


def names_a_node(client: ApiClient, namespace: str = "default") -> bool:
    return passes(lambda: client.create(pod("probe", nodeName="nowhere"), namespace=namespace, dry_run=True))


def binds(admin: ApiClient, user: str, groups: list[str] | None = None) -> bool:
    """Whether a user may bind, told by a pod that is not there."""
    client = admin.as_user(user, [*(groups or []), "lists-ops", "system:authenticated"])
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "none"},
        "target": {"kind": "Node", "name": "none"},
    }
    try:
        client.request("POST", "/api/v1/namespaces/default/pods/none/binding", body=body)
    except ApiError as error:
        return "gpures-fence" not in error.message
    return True


def test_an_administrator_who_is_on_no_list_is_refused(ops: ApiClient) -> None:
    assert not names_a_node(ops)


def test_a_group_that_breaks_glass_passes(admin: ApiClient, ops: ApiClient) -> None:
    breaking = admin.as_user("ops@example.com", ["lists-ops", "emergency"])
    with lists(admin, lambda: names_a_node(breaking), break_glass_groups="system:masters, emergency"):
        assert not names_a_node(ops)


def test_nobody_breaks_glass_when_the_list_is_empty(admin: ApiClient) -> None:
    with lists(admin, lambda: not names_a_node(admin), break_glass_groups=""):
        assert not names_a_node(admin)


def test_an_infrastructure_namespace_is_left_alone(admin: ApiClient, ops: ApiClient, namespace: str) -> None:
    with lists(admin, lambda: names_a_node(ops, namespace), infrastructure_namespaces=f"gpu-operator,{namespace}"):
        assert not names_a_node(ops, "default")


SLIPS: list[tuple[str, str, bool]] = [
    ("spaces", "  system:kube-scheduler ,  team:binder  ", True),
    ("a comma too many", "system:kube-scheduler,,team:binder,", True),
    ("a semicolon", "system:kube-scheduler;team:binder", False),
    ("JSON", '["team:binder"]', False),
    ("a part of the name", "system:kube-scheduler,team", False),
    ("another case", "system:kube-scheduler,Team:Binder", False),
    ("a star", "*", False),
]


@contextmanager
def binders(admin: ApiClient, value: str | None, **others: str | None) -> Iterator[None]:
    """Another list of binders, in force; a group that is let through by the same write says so."""
    marker = admin.as_user("ops@example.com", ["lists-ops", "lists-marker"])
    marked = "system:masters,lists-marker"
    with lists(admin, lambda: names_a_node(marker), allowed_binders=value, break_glass_groups=marked, **others):
        yield


@pytest.mark.parametrize(("value", "listed"), [slip[1:] for slip in SLIPS], ids=[slip[0] for slip in SLIPS])
def test_a_slip_of_the_pen_lets_nobody_else_in(admin: ApiClient, ops: ApiClient, value: str, listed: bool) -> None:
    with binders(admin, value):
        assert binds(admin, "team:binder") is listed
        assert not binds(admin, "team:other")


def test_a_misspelt_list_leaves_the_shipped_one_in_force(admin: ApiClient, ops: ApiClient) -> None:
    with binders(admin, None, alowed_binders="team:binder"):
        assert binds(admin, "system:kube-scheduler")
        assert not binds(admin, "team:binder")


def test_a_group_may_be_listed(admin: ApiClient, ops: ApiClient) -> None:
    with binders(admin, "system:kube-scheduler,system:serviceaccounts:yunikorn"):
        assert binds(admin, "system:serviceaccount:yunikorn:scheduler", ["system:serviceaccounts:yunikorn"])


def test_what_is_shipped_is_what_holds_without_a_list(admin: ApiClient) -> None:
    shipped = next(d for d in documents("policies", "fence.yaml") if d["kind"].endswith("Binding"))["metadata"][
        "annotations"
    ]
    policies = [d for d in documents("policies", "fence*.yaml") if d["kind"] == "ValidatingAdmissionPolicy"]
    read = re.findall(r"\?'(gpures\.dev/fence-[a-z-]+)'\]\.orValue\('([^']*)'\)", json.dumps(policies))
    # Without a list no namespace and no injector is let through.
    unlisted = {"gpures.dev/fence-infrastructure-namespaces": "", "gpures.dev/fence-ca-injectors": ""}
    assert dict(read) == shipped | unlisted
    assert len(set(read)) == len(shipped)


# Our webhook configurations


@pytest.fixture(scope="module")
def registered(control_plane: ControlPlane, admin: ApiClient) -> Iterator[None]:
    for configuration in webhook_configurations(WebhookEndpoint(control_plane.ca.pem, "https://127.0.0.1:1")):
        admin.apply(configuration)
    yield
    unregister_webhooks(admin)


def injected(client: ApiClient, **others: str) -> bool:
    """Another CA bundle in every entry, and other things that were asked for."""
    found = client.get(WEBHOOKS, OURS)
    for entry in found["webhooks"]:
        entry["clientConfig"]["caBundle"] = "bm90IGEgYnVuZGxl"
        entry.update(others)
    api = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    try:
        client.replace({**api, **found}, dry_run=True)
    except ApiError as error:
        # A bundle that is none is refused after the fence.
        return "gpures-fence" not in error.message
    return True


@pytest.mark.parametrize("user", [INJECTOR, RECONCILER])
def test_a_ca_injector_changes_the_bundle_and_nothing_else(
    admin: ApiClient, ops: ApiClient, registered: None, user: str
) -> None:
    injector = admin.as_user(user, ["lists-ops", "system:authenticated"])
    assert injected(injector)
    assert not injected(injector, failurePolicy="Ignore")
    assert not passes(lambda: injector.delete(WEBHOOKS, OURS))


def test_an_installer_changes_everything(admin: ApiClient, ops: ApiClient, registered: None) -> None:
    assert not injected(ops)
    with lists(
        admin, lambda: injected(ops, failurePolicy="Ignore"), installers="kubeadm:cluster-admins,ops@example.com"
    ):
        assert injected(ops)


def test_others_change_their_own_webhooks(admin: ApiClient, ops: ApiClient, registered: None) -> None:
    meta = {"name": "zz-gpures-like"}
    body = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": meta}
    ops.create(body)
    ops.patch(WEBHOOKS, "zz-gpures-like", {"metadata": {"labels": {"a": "b"}}})
    ops.delete(WEBHOOKS, "zz-gpures-like")
