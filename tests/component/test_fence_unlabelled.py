"""A pod that asks for a class's resource and names no class is told so, without a call to us."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from tests.component.builders import CLASSES, DEADLINE_S, class_in_force, container, pod, sidecar
from tests.controlplane.client import ApiClient
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.install import install
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

NAMES = ("unlabelled-h100", "unlabelled-a100")
SENTENCE = (
    "Validation failed for ValidatingAdmissionPolicy 'gpures-fence-unlabelled' with binding 'gpures-fence-unlabelled': "
    "it is stored, but names no GPU class, so it stays off reserved nodes; label it gpu-class=<class> "
    "(kubectl get gpuc)"
)


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> Iterator[ApiClient]:
    install(control_plane.admin)
    with class_in_force(control_plane.admin, NAMES[0]), class_in_force(control_plane.admin, NAMES[1]):
        until(lambda: told(control_plane.admin, pod()), DEADLINE_S, "the sign is up")
        yield control_plane.admin


def told(admin: ApiClient, manifest: JsonObject, namespace: str = "default") -> Sequence[str]:
    warnings = admin.create(manifest, namespace=namespace, dry_run=True).warnings
    return [warning for warning in warnings if "gpures" in warning]


@pytest.mark.parametrize(
    "manifest",
    [
        pod(),
        pod(containers=[container(gpu="8")]),
        pod(containers=[container()], initContainers=[sidecar("gpu", gpu="1")]),
    ],
    ids=["one", "eight", "in a sidecar"],
)
def test_a_pod_without_a_class_is_told_once(admin: ApiClient, manifest: JsonObject) -> None:
    assert told(admin, manifest) == [SENTENCE]


def test_the_sentence_fits_a_terminal() -> None:
    assert len(SENTENCE) < 240


@pytest.mark.parametrize(
    "manifest",
    [
        pod(labels={"gpu-class": NAMES[0]}),
        pod(containers=[container(cpu="1")]),
        pod(containers=[container(gpu="0")]),
        pod(containers=[container(**{"vendor.example/thing": "1"})]),
    ],
    ids=["with a class", "without a GPU", "with none of them", "with another resource"],
)
def test_nobody_else_is_told_anything(admin: ApiClient, manifest: JsonObject) -> None:
    assert told(admin, manifest) == []


def test_classes_that_observe_say_nothing(admin: ApiClient, namespace: str) -> None:
    mode = {"spec": {"modeFor": [{"namespaces": [namespace], "mode": "Observe"}]}}
    for name in NAMES:
        admin.patch(CLASSES, name, mode)
    until(lambda: not told(admin, pod(), namespace), DEADLINE_S, "the classes only observe here")
    assert told(admin, pod()) == [SENTENCE]
