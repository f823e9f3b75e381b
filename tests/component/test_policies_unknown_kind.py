"""An API server that does not know the kind of our policies' parameters.

After its start that is so for up to 30 s; without the definition it stays so. With `failurePolicy: Fail` every pod of
the cluster was refused.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.component.builders import CLASSES, DEADLINE_S, gates, pod
from tests.controlplane.client import ApiClient
from tests.controlplane.cluster import READY_DEADLINE_S, ControlPlane
from tests.controlplane.install import install
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def admin() -> Iterator[ApiClient]:
    """Of a cluster with our policies and without our classes, whose API server has just started."""
    with ControlPlane() as control_plane:
        install(control_plane.admin)
        definition = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CLASSES}"
        control_plane.admin.request("DELETE", definition)
        until(lambda: not defined(control_plane.admin), DEADLINE_S, "definition of classes gone")
        apiserver = control_plane.children["kube-apiserver"]
        # Asked politely, it would wait a minute for its watches to end.
        apiserver.kill()
        apiserver.start()
        until(lambda: ready(control_plane.admin), READY_DEADLINE_S, "API server back", retry_on=(Exception,))
        yield control_plane.admin


def defined(admin: ApiClient) -> bool:
    return admin.find("customresourcedefinitions.apiextensions.k8s.io", CLASSES) is not None


def ready(admin: ApiClient) -> bool:
    return admin.request("GET", "/readyz").status == 200


@pytest.mark.parametrize(
    "manifest",
    [pod(), pod(labels={"gpu-class": "h100"}), pod(tolerations=[{"operator": "Exists"}])],
    ids=["plain", "of a class", "of a node agent"],
)
def test_no_pod_is_refused(admin: ApiClient, manifest: dict[str, object]) -> None:
    assert gates(admin.create(manifest, dry_run=True).object) == []
