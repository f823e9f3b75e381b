"""The fence while something else is missing: a ready API server, our namespace, our kinds, its own lists."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.component.builders import CLASSES, DEADLINE_S, TAINT, container, pod
from tests.component.fence_scene import FENCE
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.install import install
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

NODE, BARE = "alone-node", "bare"
PLAIN = pod("plain", containers=[container()])
FORGED = [{"key": TAINT, "operator": "Exists"}]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    """With our policies and none of our processes; a tenant has a GPU pod that waits, without a class."""
    with ControlPlane() as control_plane:
        install(control_plane.admin)
        control_plane.nodes.add_gpu_node(NODE, "h100", 8)
        for kind, name in (("edit", "tenant"), ("cluster-admin", "wide")):
            _bound(control_plane.admin, kind, name)
        control_plane.admin.create(pod(BARE))
        until(lambda: names_a_node(control_plane) == "refused", DEADLINE_S, "tenants may edit", retry_on=(ApiError,))
        yield control_plane


def _bound(admin: ApiClient, role: str, user: str) -> None:
    group = "rbac.authorization.k8s.io"
    kind = {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": f"alone-{user}"}}
    role_ref = {"apiGroup": group, "kind": "ClusterRole", "name": role}
    admin.create(kind | {"roleRef": role_ref, "subjects": [{"apiGroup": group, "kind": "User", "name": user}]})


def answer(client: ApiClient, manifest: JsonObject) -> str:
    try:
        client.create(manifest, dry_run=True)
    except ApiError as error:
        if "gpures-fence" in error.message:
            return "refused"
        raise
    return "stored"


def names_a_node(cluster: ControlPlane) -> str:
    return answer(cluster.admin.as_user("tenant"), pod("attack", nodeName=NODE))


def tolerates(cluster: ControlPlane) -> str:
    try:
        patch = {"spec": {"tolerations": FORGED}}
        had = cluster.admin.get("pods", BARE, "default")["spec"]["tolerations"]
        patch["spec"]["tolerations"] = [*had, *FORGED]
        cluster.admin.as_user("tenant").patch("pods", BARE, patch, "default", dry_run=True)
    except ApiError as error:
        return "refused" if "gpures-fence" in error.message else error.message
    return "stored"


def test_the_fence_holds_from_the_first_answer_after_a_start(cluster: ControlPlane) -> None:
    apiserver = cluster.children["kube-apiserver"]
    apiserver.kill()
    apiserver.start()

    def first() -> tuple[str, str, str]:
        return names_a_node(cluster), tolerates(cluster), answer(cluster.admin.as_user("tenant"), PLAIN)

    # Before the API server says that it is ready: whatever it answers at all.
    assert until(first, 60.0, "an answer", retry_on=(Exception,)) == ("refused", "refused", "stored")


def test_the_fence_holds_without_our_kinds(cluster: ControlPlane) -> None:
    cluster.admin.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CLASSES}")
    assert (names_a_node(cluster), tolerates(cluster)) == ("refused", "refused")
    assert answer(cluster.admin.as_user("tenant"), PLAIN) == "stored"


def test_the_fence_holds_without_our_namespace(cluster: ControlPlane) -> None:
    cluster.admin.delete("namespaces", "gpures-system")
    until(lambda: cluster.admin.find("namespaces", "gpures-system") is None, DEADLINE_S, "our namespace gone")
    assert (names_a_node(cluster), tolerates(cluster)) == ("refused", "refused")
    assert answer(cluster.admin.as_user("tenant"), PLAIN) == "stored"


def test_without_its_lists_the_fence_is_down_and_nothing_else_is(cluster: ControlPlane) -> None:
    cluster.admin.delete(FENCE, "gpures-fence")
    until(lambda: names_a_node(cluster) == "stored", DEADLINE_S, "the fence is down")
    assert tolerates(cluster) == "stored"
    assert answer(cluster.admin.as_user("tenant"), PLAIN) == "stored"
