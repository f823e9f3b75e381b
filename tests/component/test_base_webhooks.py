"""Which requests reach our webhook, and what becomes of them while it is down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.component.builders import (
    DEADLINE_S,
    GATE,
    class_in_force,
    container,
    gates,
    pod,
    reservation,
    sidecar,
    toleration,
)
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.install import WebhookEndpoint, install, webhook_configurations
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

NAME = "base-h100"
LABEL = {"gpu-class": NAME}
GUARD = "guard.gpures.dev"


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> ApiClient:
    install(control_plane.admin)
    return control_plane.admin


@pytest.fixture(scope="module")
def dead_webhook(control_plane: ControlPlane, admin: ApiClient) -> Iterator[None]:
    """Our registrations, with nobody listening: a request that would reach the guard answers 500."""
    configurations = webhook_configurations(WebhookEndpoint(control_plane.ca.pem, "https://127.0.0.1:1"))
    stray = pod(annotations={"gpures.dev/claim": "1-1-a"})
    with class_in_force(admin, NAME):
        for configuration in configurations:
            admin.apply(configuration)
        until(lambda: judge(admin, stray) == GUARD, DEADLINE_S, "webhooks registered")
        yield
        for configuration in configurations:
            plural = f"{configuration['kind'].lower()}s.admissionregistration.k8s.io"
            admin.delete(plural, configuration["metadata"]["name"])
        until(lambda: judge(admin, stray) != GUARD, DEADLINE_S, "webhooks gone")


def judge(admin: ApiClient, manifest: JsonObject) -> str:
    """Say who refuses the pod, or ok."""
    try:
        admin.create(manifest, dry_run=True)
    except ApiError as error:
        return next((name for name in (GUARD, "gpures-check") if name in error.message), error.message)
    return "ok"


EXISTS = {"operator": "Exists"}
RESERVED = {"key": "gpu-class-reservation", "operator": "Exists"}
FORGERIES: list[tuple[str, JsonObject]] = [
    ("a token", pod(labels=LABEL, annotations={"gpures.dev/claim": "1764582000-1-9f3c"})),
    ("a token without a class", pod(annotations={"gpures.dev/claim": "1764582000-1-9f3c"})),
    ("the toleration", pod(labels=LABEL, tolerations=[toleration(NAME)])),
    ("the toleration without the label", pod(tolerations=[toleration(NAME)])),
    ("the key of every class", pod(tolerations=[RESERVED])),
    ("a wildcard with a GPU", pod(tolerations=[EXISTS])),
    (
        "a wildcard with a GPU in a sidecar",
        pod(containers=[container()], initContainers=[sidecar("agent", gpu="1")], tolerations=[EXISTS]),
    ),
    ("a toleration for a class counted in cpu", pod(labels=LABEL, containers=[container()], tolerations=[RESERVED])),
]


@pytest.mark.parametrize("forged", [manifest for _, manifest in FORGERIES], ids=[name for name, _ in FORGERIES])
def test_a_forgery_is_refused_while_the_webhook_is_down(
    admin: ApiClient, dead_webhook: None, forged: JsonObject
) -> None:
    assert judge(admin, forged) == GUARD


AGENT = [container(cpu="100m")]
GOOD: list[tuple[str, JsonObject]] = [
    ("an ordinary pod", pod(containers=AGENT)),
    ("a pod that is to be held", pod(labels=LABEL)),
    ("a device plugin", pod(containers=AGENT, tolerations=[RESERVED])),
    ("a node agent", pod(containers=AGENT, tolerations=[EXISTS])),
    ("a pod with keys of ours", pod(labels=LABEL, annotations={"gpures.dev/use-reservation": "sprint"})),
    ("a GPU pod with other tolerations", pod(tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists"}])),
    ("a GPU pod that outlives its node for long", pod(tolerations=[EXISTS | {"effect": "NoExecute"}])),
]


@pytest.mark.parametrize("good", [manifest for _, manifest in GOOD], ids=[name for name, _ in GOOD])
def test_a_good_pod_is_stored_while_the_webhook_is_down(admin: ApiClient, dead_webhook: None, good: JsonObject) -> None:
    assert judge(admin, good) == "ok"


def test_a_pod_stays_held_while_the_webhook_is_down(admin: ApiClient, dead_webhook: None) -> None:
    stored = admin.create(pod(labels=LABEL), dry_run=True).object
    assert gates(stored) == [GATE]


def test_a_reservation_is_stored_while_the_webhook_is_down(admin: ApiClient, dead_webhook: None) -> None:
    assert admin.create(reservation("unstamped"), dry_run=True).object["metadata"]["name"] == "unstamped"
