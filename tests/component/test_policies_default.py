"""A class that is the default of a namespace, on a real API server with no process of ours running."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.component.builders import CLASSES, DEADLINE_S, class_in_force, container, gates, pod, sidecar
from tests.controlplane.client import ApiClient
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.install import install
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

NAME = "default-h100"
AGENT = [container(cpu="100m")]


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> ApiClient:
    install(control_plane.admin)
    return control_plane.admin


@pytest.fixture
def home(admin: ApiClient, control_plane: ControlPlane) -> Iterator[str]:
    """The namespace whose default the class is."""
    namespace = control_plane.unique_namespace("hub")
    with class_in_force(admin, NAME, {"defaultFor": {"namespaces": [namespace]}}):
        until(lambda: label(admin, pod(), namespace) == NAME, DEADLINE_S, "the policy has seen the default")
        yield namespace


def label(admin: ApiClient, manifest: JsonObject, namespace: str) -> str:
    """The class that a pod names once it is stored."""
    stored = admin.create(manifest, namespace=namespace, dry_run=True).object
    return str(stored["metadata"].get("labels", {}).get("gpu-class", ""))


def test_a_pod_that_asks_for_a_unit_gets_the_label_among_its_own(admin: ApiClient, home: str) -> None:
    stored = admin.create(pod(labels={"app": "web"}), namespace=home, dry_run=True).object
    assert stored["metadata"]["labels"] == {"app": "web", "gpu-class": NAME}
    # Hold matched the pod as it was sent; the gate is the webhook's to add.
    assert gates(stored) == []
    early = pod(containers=AGENT, initContainers=[sidecar("prepare", gpu="1")])
    assert label(admin, early, home) == NAME


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (pod(labels={"gpu-class": "another"}), "another"),
        (pod(containers=AGENT), ""),
        (pod(containers=[container(gpu="0")]), ""),
    ],
)
def test_a_pod_that_names_a_class_or_asks_for_none_is_left_alone(
    admin: ApiClient, home: str, manifest: JsonObject, expected: str
) -> None:
    assert label(admin, manifest, home) == expected


def test_pods_elsewhere_are_left_alone(admin: ApiClient, home: str) -> None:
    assert label(admin, pod(), "default") == ""


@pytest.mark.parametrize(("spec", "expected"), [({"mode": "Observe"}, ""), ({"mode": "Warn"}, NAME)])
def test_observe_does_nothing_to_pods(admin: ApiClient, home: str, spec: dict[str, Any], expected: str) -> None:
    admin.patch(CLASSES, NAME, {"spec": {"mode": "Observe"}})
    until(lambda: label(admin, pod(), home) == "", DEADLINE_S, "Observe is seen")
    admin.patch(CLASSES, NAME, {"spec": spec})
    until(lambda: label(admin, pod(), home) == expected, DEADLINE_S, f"{spec} is seen")
    admin.patch(CLASSES, NAME, {"spec": {"mode": "Enforce"}})
