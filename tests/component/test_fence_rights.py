"""Our service accounts may do what is listed here, each for its reason, and nothing else that the API server knows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import pytest

from tests.controlplane.client import ApiClient
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.install import documents, install
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

SYSTEM = "gpures-system"
ELSEWHERE = "default"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
AT_ONCE = 8
GIVEN_TO_ALL = "all"


class Right(NamedTuple):
    """A verb on `resource[/subresource]` of a group; `name` where it is for one object only."""

    account: str
    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


def _rights(account: str, verbs: str, group: str, resource: str, why: str, **where: str) -> dict[Right, str]:
    return {Right(account, verb, group, resource, **where): why for verb in verbs.split()}


OURS = "gpures.dev"
REGISTRATION = "admissionregistration.k8s.io"
LEASES = "coordination.k8s.io"
NEEDED: Mapping[Right, str] = {
    **_rights("webhook", "list watch", OURS, "gpuclasses", "reads which classes there are"),
    **_rights("webhook", "list watch", OURS, "gpureservations", "reads which windows are open"),
    **_rights("webhook", "get", OURS, "gpureservations", "looks again when a claim was refused"),
    **_rights("webhook", "patch", OURS, "gpureservations/status", "claims"),
    **_rights("reconciler", "list watch", "", "pods", "sees who waits and who runs"),
    **_rights("reconciler", "patch", "", "pods", "opens the gate, adds the toleration"),
    **_rights("reconciler", "delete", "", "pods", "takes away what no node took before its guarantee ended"),
    **_rights("reconciler", "patch", "", "pods/status", "writes the condition gpures.dev/Held"),
    **_rights("reconciler", "list watch", "", "nodes", "counts units"),
    **_rights("reconciler", "create patch", "events.k8s.io", "events", "says why, and how often"),
    **_rights("reconciler", "list watch", OURS, "gpuclasses", "reads which classes there are"),
    **_rights("reconciler", "get", OURS, "gpuclasses", "reads a class's counter before it confirms"),
    **_rights("reconciler", "list watch", OURS, "gpureservations", "plans"),
    **_rights("reconciler", "get", OURS, "gpureservations", "looks again before what cannot be undone"),
    **_rights("reconciler", "delete", OURS, "gpureservations", "tidies up what is finished for long"),
    **_rights("reconciler", "patch", OURS, "gpureservations/status", "confirms, claims, ends"),
    **_rights("reconciler", "patch", OURS, "gpuclasses/status", "writes the totals"),
    **_rights("reconciler", "create", LEASES, "leases", "leads; no name can be demanded of a create", namespace=SYSTEM),
    **_rights("reconciler", "get patch", LEASES, "leases", "leads", namespace=SYSTEM, name="gpures-reconciler"),
    **_rights("reconciler", "watch", LEASES, "leases", "follows at once", namespace=SYSTEM, name="gpures-reconciler"),
    **_rights("reconciler", "create", "", "secrets", "makes the certificate", namespace=SYSTEM),
    **_rights("reconciler", "get patch", "", "secrets", "renews it", namespace=SYSTEM, name="gpures-webhook-tls"),
    **_rights("reconciler", "get patch", "", "secrets", "keeps the CA", namespace=SYSTEM, name="gpures-webhook-ca"),
    **_rights(
        "reconciler", "get patch", REGISTRATION, "mutatingwebhookconfigurations", "its CA bundle", name="zz-gpures"
    ),
    **_rights(
        "reconciler", "get patch", REGISTRATION, "validatingwebhookconfigurations", "its CA bundle", name="zz-gpures"
    ),
}
FOR_ALL = frozenset(Right(GIVEN_TO_ALL, verb, OURS, "gpuclasses") for verb in ("get", "list", "watch"))


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> ApiClient:
    install(control_plane.admin)
    return control_plane.admin


def _written() -> Iterator[Right]:
    """Every right in the roles of `deploy/base` that are bound to our accounts."""
    base = documents("base")
    roles = {(role["kind"], role["metadata"]["name"]): role for role in base if role["kind"].endswith("Role")}
    for binding in (each for each in base if each["kind"].endswith("RoleBinding")):
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        for subject, rule in itertools.product(binding["subjects"], role["rules"]):
            account = GIVEN_TO_ALL if subject["kind"] == "Group" else subject["name"].removeprefix("gpures-")
            where = role["metadata"].get("namespace", "")
            names = rule.get("resourceNames", [""])
            for parts in itertools.product(rule["verbs"], rule["apiGroups"], rule["resources"], [where], names):
                yield Right(account, *parts)


def test_every_right_that_is_given_has_a_reason() -> None:
    assert set(_written()) - set(NEEDED) - FOR_ALL == set()


def test_every_right_that_is_needed_is_given() -> None:
    assert set(NEEDED) - set(_written()) == set()


def _review(admin: ApiClient, right: Right, user: str) -> bool:
    group_of = ["system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}", "system:authenticated"]
    resource, _, sub = right.resource.partition("/")
    attributes: dict[str, Any] = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": sub,
        "namespace": right.namespace,
        "name": right.name,
    }
    spec = {"user": user, "groups": group_of, "resourceAttributes": attributes}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    return bool(admin.create(body).object["status"]["allowed"])


def _served(admin: ApiClient) -> Sequence[tuple[str, str, bool]]:
    """Group, resource with its subresource, and whether it lies in namespaces, of all that the API server has."""
    versions = ["/api/v1"]
    for group in admin.request("GET", "/apis").object["groups"]:
        versions += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    found: dict[tuple[str, str], bool] = {}
    for path in versions:
        served = admin.request("GET", path).object
        group = served["groupVersion"].rpartition("/")[0]
        found |= {(group, entry["name"]): bool(entry["namespaced"]) for entry in served["resources"]}
    return [(group, resource, namespaced) for (group, resource), namespaced in sorted(found.items())]


SPECIAL = [
    ("impersonate", "", "users"),
    ("impersonate", "", "groups"),
    ("impersonate", "", "serviceaccounts"),
    ("impersonate", "authentication.k8s.io", "uids"),
    ("bind", "rbac.authorization.k8s.io", "clusterroles"),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles"),
    ("bind", "rbac.authorization.k8s.io", "roles"),
    ("escalate", "rbac.authorization.k8s.io", "roles"),
    ("approve", "certificates.k8s.io", "signers"),
    ("sign", "certificates.k8s.io", "signers"),
    ("attest", "certificates.k8s.io", "signers"),
    ("use", "policy", "podsecuritypolicies"),
    ("*", "*", "*"),
]


@pytest.mark.parametrize("account", ["webhook", "reconciler"])
def test_nothing_else_is_allowed(admin: ApiClient, account: str) -> None:
    asked = [(verb, group, name, spaced) for group, name, spaced in _served(admin) for verb in VERBS]
    asked += [(verb, group, name, True) for verb, group, name in SPECIAL]
    questions = [
        Right(account, verb, group, name, where)
        for verb, group, name, spaced in asked
        for where in ((SYSTEM, ELSEWHERE) if spaced else ("",))
    ]
    assert len(questions) > 1000

    def gained(right: Right) -> bool:
        """Allowed, and not to every account."""
        if not _review(admin, right, f"system:serviceaccount:{SYSTEM}:gpures-{account}"):
            return False
        return not _review(admin, right, f"system:serviceaccount:{SYSTEM}:default")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        allowed = {right for right, yes in zip(questions, pool.map(gained, questions), strict=True) if yes}
    # Rights on one object of a name are none on all of them.
    known = {right for right in NEEDED if not right.name and right.account == account}
    expected = {right for right in questions if {right, right._replace(namespace="")} & known}
    assert allowed == expected - {right for right in expected if right.resource == "gpuclasses"}


@pytest.mark.parametrize("right", [right for right in NEEDED if right.name], ids=str)
def test_a_right_on_one_object_is_one_on_no_other(admin: ApiClient, right: Right) -> None:
    user = f"system:serviceaccount:{SYSTEM}:gpures-{right.account}"
    assert _review(admin, right, user)
    assert not _review(admin, right._replace(name="another"), user)
    if right.namespace:
        assert not _review(admin, right._replace(namespace=ELSEWHERE), user)


TENANTS = [
    ("edit", "create", OURS, "gpureservations", True),
    ("edit", "delete", OURS, "gpureservations", True),
    ("edit", "deletecollection", OURS, "gpureservations", False),
    ("edit", "patch", OURS, "gpureservations/status", False),
    ("admin", "patch", OURS, "gpureservations/status", False),
    ("admin", "patch", OURS, "gpuclasses", False),
    ("admin", "create", "", "pods/binding", False),
    ("admin", "create", "", "bindings", False),
    ("admin", "patch", "", "pods/status", False),
    ("admin", "delete", REGISTRATION, "validatingadmissionpolicies", False),
    ("view", "list", OURS, "gpureservations", True),
    ("view", "create", OURS, "gpureservations", False),
]


@pytest.mark.parametrize(("role", "verb", "group", "resource", "allowed"), TENANTS)
def test_a_tenant_has_the_rights_of_a_tenant(
    admin: ApiClient, namespace: str, role: str, verb: str, group: str, resource: str, allowed: bool
) -> None:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": role},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "rights-user"}],
    }
    admin.create(binding, namespace=namespace)
    reads = Right("", "list", OURS, "gpureservations", namespace)
    until(lambda: _review(admin, reads, "rights-user"), 20.0, f"the binding of {role} is known, and what it gathers")
    assert _review(admin, Right("", verb, group, resource, namespace), "rights-user") is allowed
