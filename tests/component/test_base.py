"""What `deploy/base` grants, and where its requests queue."""

from __future__ import annotations

import httpx
import pytest

from tests.component.builders import (
    CLASSES,
    DEADLINE_S,
    RESERVATIONS,
    gpu_class,
    reservation,
)
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.install import install
from tests.controlplane.kubeconfig import read_kubeconfig
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

SYSTEM = "gpures-system"
NAME = "base-h100"
LABEL = {"gpu-class": NAME}
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{SYSTEM}/leases"
GUARD = "guard.gpures.dev"
FLOW_SCHEMAS = "flowschemas.flowcontrol.apiserver.k8s.io"


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> ApiClient:
    install(control_plane.admin)
    return control_plane.admin


def may(admin: ApiClient, account: str, verb: str, resource: str, *, namespace: str = "", name: str = "") -> bool:
    """Whether RBAC lets one of our service accounts do it; `group/resource/subresource`, core without a group."""
    group, _, rest = resource.rpartition(":")
    plural, _, subresource = rest.partition("/")
    attributes = {"verb": verb, "group": group, "resource": plural, "subresource": subresource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {
            "user": f"system:serviceaccount:{SYSTEM}:gpures-{account}",
            "groups": ["system:serviceaccounts", f"system:serviceaccounts:{SYSTEM}", "system:authenticated"],
            "resourceAttributes": attributes | {"namespace": namespace, "name": name},
        },
    }
    return bool(admin.create(review).object["status"]["allowed"])


# ----------------------------------------------------------------------------------------------------------- RBAC


@pytest.mark.parametrize(
    ("account", "verb", "resource"),
    [
        ("webhook", "watch", "gpures.dev:gpuclasses"),
        ("webhook", "list", "gpures.dev:gpureservations"),
        ("webhook", "patch", "gpures.dev:gpureservations/status"),
        ("reconciler", "watch", "pods"),
        ("reconciler", "patch", "pods"),
        ("reconciler", "patch", "pods/status"),
        ("reconciler", "delete", "pods"),
        ("reconciler", "watch", "nodes"),
        ("reconciler", "create", "events.k8s.io:events"),
        ("reconciler", "delete", "gpures.dev:gpureservations"),
        ("reconciler", "patch", "gpures.dev:gpureservations/status"),
        ("reconciler", "patch", "gpures.dev:gpuclasses/status"),
    ],
)
def test_our_accounts_may_do_their_work(admin: ApiClient, account: str, verb: str, resource: str) -> None:
    assert may(admin, account, verb, resource)


@pytest.mark.parametrize(
    ("account", "verb", "resource"),
    [
        ("webhook", "get", "pods"),
        ("webhook", "get", "secrets"),
        ("webhook", "patch", "gpures.dev:gpureservations"),
        ("webhook", "update", "gpures.dev:gpureservations/status"),
        ("webhook", "patch", "gpures.dev:gpuclasses/status"),
        ("reconciler", "create", "pods"),
        ("reconciler", "deletecollection", "pods"),
        ("reconciler", "update", "pods"),
        ("reconciler", "create", "pods/binding"),
        ("reconciler", "create", "gpures.dev:gpureservations"),
        ("reconciler", "patch", "gpures.dev:gpuclasses"),
        ("reconciler", "get", "secrets"),
        ("reconciler", "patch", "nodes"),
        ("reconciler", "patch", "admissionregistration.k8s.io:validatingadmissionpolicies"),
    ],
)
def test_our_accounts_may_do_nothing_else(admin: ApiClient, account: str, verb: str, resource: str) -> None:
    assert not may(admin, account, verb, resource)


@pytest.mark.parametrize(
    ("verb", "namespace", "name", "allowed"),
    [
        ("create", SYSTEM, "", True),
        ("patch", SYSTEM, "gpures-reconciler", True),
        ("patch", SYSTEM, "another", False),
        ("watch", SYSTEM, "gpures-reconciler", True),
        ("watch", SYSTEM, "", False),
        ("create", "kube-system", "", False),
    ],
)
def test_the_reconciler_holds_its_own_lease_only(
    admin: ApiClient, verb: str, namespace: str, name: str, allowed: bool
) -> None:
    found = may(admin, "reconciler", verb, "coordination.k8s.io:leases", namespace=namespace, name=name)
    assert found is allowed


@pytest.fixture
def tenants(admin: ApiClient, namespace: str) -> dict[str, ApiClient]:
    """Users of the namespace by their role there, once the roles have taken over ours; `none` has no role."""
    for role in ("edit", "view"):
        binding = {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": f"{role}-user"}],
        }
        admin.create(binding, namespace=namespace)
    users = {role: admin.as_user(f"{role}-user", ["system:authenticated"]) for role in ("edit", "view", "none")}
    until(lambda: allowed(users["edit"], "probe", namespace), DEADLINE_S, "edit has taken over our role")
    until(lambda: answers(users["view"], namespace), DEADLINE_S, "view has taken over our role")
    return users


def allowed(user: ApiClient, name: str, namespace: str) -> bool:
    try:
        user.create(reservation(name), namespace=namespace, dry_run=True)
    except ApiError as error:
        if error.code == httpx.codes.FORBIDDEN:
            return False
        raise
    return True


def answers(user: ApiClient, namespace: str) -> bool:
    try:
        user.items(RESERVATIONS, namespace)
    except ApiError:
        return False
    return True


def test_an_editor_books_changes_and_deletes(tenants: dict[str, ApiClient], namespace: str) -> None:
    editor = tenants["edit"]
    editor.create(reservation("mine"), namespace=namespace)
    editor.patch(RESERVATIONS, "mine", {"spec": {"duration": "8h"}}, namespace)
    editor.delete(RESERVATIONS, "mine", namespace)
    assert editor.items(RESERVATIONS, namespace) == []


def test_an_editor_does_not_touch_the_status(tenants: dict[str, ApiClient], namespace: str) -> None:
    tenants["edit"].create(reservation("mine"), namespace=namespace)
    confirm = {"status": {"phase": "Confirmed"}}
    with pytest.raises(ApiError, match="gpureservations/status") as caught:
        tenants["edit"].patch(RESERVATIONS, "mine", confirm, namespace, subresource="status")
    assert caught.value.code == 403


def test_a_status_in_an_ordinary_update_changes_nothing(tenants: dict[str, ApiClient], namespace: str) -> None:
    tenants["edit"].create(reservation("mine"), namespace=namespace)
    stored = tenants["edit"].patch(RESERVATIONS, "mine", {"status": {"phase": "Confirmed"}}, namespace).object
    assert stored["status"] == {"phase": "Pending"}


def test_a_viewer_reads_and_does_not_book(tenants: dict[str, ApiClient], namespace: str) -> None:
    assert answers(tenants["view"], namespace)
    assert not allowed(tenants["view"], "mine", namespace)


def test_somebody_without_a_role_does_not_read_reservations(tenants: dict[str, ApiClient], namespace: str) -> None:
    assert not answers(tenants["none"], namespace)


def test_everybody_reads_classes(tenants: dict[str, ApiClient]) -> None:
    assert isinstance(tenants["none"].items(CLASSES), list)


def test_an_editor_makes_no_class(tenants: dict[str, ApiClient]) -> None:
    with pytest.raises(ApiError) as caught:
        tenants["edit"].create(gpu_class("mine"), dry_run=True)
    assert caught.value.code == 403


# --------------------------------------------------------------------------------------------------- flow control


@pytest.mark.parametrize(
    ("account", "method", "path", "schema"),
    [
        ("reconciler", "GET", f"{LEASES}/gpures-reconciler", "gpures-leader"),
        (
            "reconciler",
            "GET",
            f"{LEASES}?watch=1&timeoutSeconds=1&fieldSelector=metadata.name%3Dgpures-reconciler",
            "gpures-leader",
        ),
        ("reconciler", "GET", "/api/v1/pods?limit=1", "gpures"),
        ("reconciler", "GET", "/version", "gpures"),
        ("webhook", "GET", "/apis/gpures.dev/v1alpha1/gpureservations?limit=1", "gpures"),
        ("webhook", "GET", "/apis/gpures.dev/v1alpha1/gpuclasses?limit=1", "gpures"),
    ],
)
def test_our_requests_have_a_queue_of_their_own(
    control_plane: ControlPlane, admin: ApiClient, account: str, method: str, path: str, schema: str
) -> None:
    connection = read_kubeconfig(control_plane.kubeconfig_for_service_account(SYSTEM, f"gpures-{account}"))
    uid = str(admin.get(FLOW_SCHEMAS, schema)["metadata"]["uid"])
    with httpx.Client(base_url=connection.server, verify=connection.tls(), headers=connection.headers()) as http:

        def matches() -> bool:
            return bool(http.request(method, path).headers.get("X-Kubernetes-PF-FlowSchema-UID") == uid)

        until(matches, DEADLINE_S, f"{path} in {schema}")


@pytest.mark.parametrize("name", ["gpures", "gpures-leader"])
def test_no_flow_schema_hangs_in_the_air(admin: ApiClient, name: str) -> None:
    def dangling() -> str:
        conditions = admin.get(FLOW_SCHEMAS, name).get("status", {}).get("conditions", [])
        return next((str(entry["status"]) for entry in conditions if entry["type"] == "Dangling"), "")

    until(lambda: dangling() == "False", DEADLINE_S, f"flow schema {name} has its priority level")


@pytest.mark.parametrize("name", ["gpures-check", "gpures-reservations"])
def test_the_type_checker_finds_nothing_in_our_policies(admin: ApiClient, name: str) -> None:
    def checked() -> JsonObject:
        policy = admin.get("validatingadmissionpolicies.admissionregistration.k8s.io", name)
        found: JsonObject = policy.get("status", {})
        return found

    until(lambda: "typeChecking" in checked(), DEADLINE_S, f"{name} was type-checked")
    assert checked()["typeChecking"] == {}
