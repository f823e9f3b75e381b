"""The hold policy on a real API server, with no process of ours running."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.component.builders import CLASSES, DEADLINE_S, GATE, class_in_force, container, gates, held, pod, sidecar
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.install import install
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

NAME = "hold-h100"
LABEL = {"gpu-class": NAME}
UNDECIDED = "Undecided: held until the reservation service answers; nothing is lost, it starts by itself"
LEFT_ALONE = ("kube-system", "kube-public", "kube-node-lease", "gpures-system")


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> ApiClient:
    install(control_plane.admin)
    return control_plane.admin


@pytest.fixture
def enforced(admin: ApiClient) -> Iterator[str]:
    with class_in_force(admin, NAME) as name:
        yield name


def stored(admin: ApiClient, manifest: JsonObject, namespace: str = "default") -> JsonObject:
    """What the API server would store."""
    return admin.create(manifest, namespace=namespace, dry_run=True).object


def content(found: JsonObject) -> JsonObject:
    """What of a pod does not differ from create to create."""
    meta = {key: value for key, value in found["metadata"].items() if key in ("name", "labels", "annotations")}
    return {"metadata": meta, "spec": found["spec"]}


def becomes(admin: ApiClient, spec: JsonObject, *, hold: bool) -> None:
    """Change the class and wait until the policy has seen it."""
    admin.patch(CLASSES, NAME, {"spec": spec})
    until(lambda: held(admin, NAME) is hold, DEADLINE_S, f"hold is {hold} after {spec}")


def test_a_pod_of_an_enforced_class_is_held_with_a_reason(admin: ApiClient, enforced: str) -> None:
    found = stored(admin, pod(labels=LABEL))
    assert (gates(found), found["metadata"]["annotations"]) == ([GATE], {"gpures.dev/held": UNDECIDED})


def test_a_held_pod_differs_in_nothing_else(admin: ApiClient, enforced: str) -> None:
    before = content(stored(admin, pod(labels=LABEL), "kube-system"))
    after = content(stored(admin, pod(labels=LABEL)))
    del after["spec"]["schedulingGates"], after["metadata"]["annotations"]
    assert after == before


def test_without_a_class_a_pod_is_stored_as_in_a_namespace_without_policies(admin: ApiClient) -> None:
    manifest = pod(labels={"gpu-class": "no-such-class"})
    assert content(stored(admin, manifest)) == content(stored(admin, manifest, "kube-system"))


def test_a_pod_that_names_another_class_is_left_alone(admin: ApiClient, enforced: str) -> None:
    assert gates(stored(admin, pod(labels={"gpu-class": f"{NAME}0"}))) == []


def test_a_pod_without_the_label_is_left_alone(admin: ApiClient, enforced: str) -> None:
    assert gates(stored(admin, pod())) == []


def test_a_pod_that_asks_for_nothing_of_the_class_is_left_alone(admin: ApiClient, enforced: str) -> None:
    found = stored(admin, pod(labels=LABEL, containers=[container(cpu="4")]))
    assert "annotations" not in found["metadata"]
    assert gates(found) == []


def test_a_request_of_zero_is_none(admin: ApiClient, enforced: str) -> None:
    assert gates(stored(admin, pod(labels=LABEL, containers=[container(gpu="0")]))) == []


@pytest.mark.parametrize("init", [container("setup", gpu="1"), sidecar("agent", gpu="1")])
def test_an_init_container_may_be_the_one_that_asks(admin: ApiClient, enforced: str, init: JsonObject) -> None:
    assert gates(stored(admin, pod(labels=LABEL, containers=[container(cpu="1")], initContainers=[init]))) == [GATE]


def test_requests_of_the_pod_as_a_whole_count(admin: ApiClient, enforced: str) -> None:
    becomes(admin, {"unit": {"resources": {"nvidia.com/gpu": None, "cpu": "1"}}}, hold=False)
    found = stored(admin, pod(labels=LABEL, containers=[container()], resources={"requests": {"cpu": "2"}}))
    assert gates(found) == [GATE]


@pytest.mark.parametrize("mode", ["Observe", "Warn"])
def test_only_enforce_holds(admin: ApiClient, enforced: str, mode: str) -> None:
    becomes(admin, {"mode": mode}, hold=False)
    before = content(stored(admin, pod(labels=LABEL), "kube-system"))
    assert content(stored(admin, pod(labels=LABEL))) == before


def test_allow_does_not_hold(admin: ApiClient, enforced: str) -> None:
    becomes(admin, {"withoutReservation": "Allow"}, hold=False)
    assert "annotations" not in stored(admin, pod(labels=LABEL))["metadata"]


def test_another_mode_for_the_namespace_comes_first(admin: ApiClient, enforced: str, namespace: str) -> None:
    other = [{"namespaces": [namespace], "mode": "Observe"}, {"namespaces": [namespace, "default"], "mode": "Enforce"}]
    admin.patch(CLASSES, NAME, {"spec": {"modeFor": other}})
    until(lambda: not gates(stored(admin, pod(labels=LABEL), namespace)), DEADLINE_S, "observed in the namespace")
    assert gates(stored(admin, pod(labels=LABEL))) == [GATE]


def test_enforce_for_one_namespace_holds_there(admin: ApiClient, enforced: str, namespace: str) -> None:
    only_here = {"mode": "Observe", "modeFor": [{"namespaces": [namespace], "mode": "Enforce"}]}
    becomes(admin, only_here, hold=False)
    assert gates(stored(admin, pod(labels=LABEL), namespace)) == [GATE]


def test_the_newer_of_two_classes_with_one_label_value_holds_nothing(admin: ApiClient, enforced: str) -> None:
    instant = "2026-12-01T09:00:00Z"
    conflict = {"type": "Conflict", "status": "True", "reason": "Older", "message": "", "lastTransitionTime": instant}
    admin.patch(CLASSES, NAME, {"status": {"conditions": [conflict]}}, subresource="status")
    until(lambda: not held(admin, NAME), DEADLINE_S, "class in conflict holds nothing")


def test_a_label_value_stands_in_for_the_name(admin: ApiClient, enforced: str) -> None:
    spec = {"labelValue": "HOLD_80GB"}
    admin.create(
        {"apiVersion": "gpures.dev/v1alpha1", "kind": "GPUClass", "metadata": {"name": "hold-80"}, "spec": spec}
    )
    try:
        until(lambda: held(admin, "HOLD_80GB"), DEADLINE_S, "class with a label value holds")
        assert not held(admin, "hold-80")
    finally:
        admin.delete(CLASSES, "hold-80")


def test_our_gate_comes_after_those_of_others(admin: ApiClient, enforced: str) -> None:
    found = stored(admin, pod(labels=LABEL, schedulingGates=[{"name": "other.example/wait"}]))
    assert gates(found) == ["other.example/wait", GATE]


def test_a_gate_of_ours_is_not_put_in_twice(admin: ApiClient, enforced: str) -> None:
    found = stored(admin, pod(labels=LABEL, schedulingGates=[{"name": GATE}, {"name": "other.example/wait"}]))
    assert gates(found) == [GATE, "other.example/wait"]


def test_other_annotations_stay(admin: ApiClient, enforced: str) -> None:
    found = stored(admin, pod(labels=LABEL, annotations={"team": "blue"}))
    assert found["metadata"]["annotations"] == {"team": "blue", "gpures.dev/held": UNDECIDED}


def test_an_invented_reason_is_written_over(admin: ApiClient, enforced: str) -> None:
    found = stored(admin, pod(labels=LABEL, annotations={"gpures.dev/held": "Please: let me in"}))
    assert found["metadata"]["annotations"]["gpures.dev/held"] == UNDECIDED


def test_a_held_pod_may_not_name_its_node(admin: ApiClient, enforced: str) -> None:
    with pytest.raises(ApiError, match="cannot be set until all schedulingGates have been cleared") as caught:
        stored(admin, pod(labels=LABEL, nodeName="gpu-a"))
    assert caught.value.code == 422


def test_a_mirror_pod_is_left_alone(admin: ApiClient, enforced: str) -> None:
    mirror = pod(labels=LABEL, annotations={"kubernetes.io/config.mirror": "0"}, nodeName="gpu-a")
    assert gates(stored(admin, mirror)) == []


@pytest.mark.parametrize("namespace", LEFT_ALONE)
def test_some_namespaces_are_left_alone(admin: ApiClient, enforced: str, namespace: str) -> None:
    manifest = pod(labels=LABEL, securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}})
    manifest["spec"]["containers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    until(lambda: admin.find("serviceaccounts", "default", namespace), DEADLINE_S, "default service account")
    assert gates(stored(admin, manifest, namespace)) == []


def test_the_pods_of_a_deployment_are_held(admin: ApiClient, enforced: str, namespace: str) -> None:
    template = {"metadata": {"labels": LABEL | {"app": "web"}}, "spec": pod()["spec"]}
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    admin.create(deployment, namespace=namespace)
    until(lambda: len(admin.items("pods", namespace)) == 2, DEADLINE_S, "two pods")
    assert [gates(found) for found in admin.items("pods", namespace)] == [[GATE], [GATE]]


def test_server_side_apply_keeps_the_gate(admin: ApiClient, enforced: str, namespace: str) -> None:
    for _ in range(2):
        admin.apply(pod("applied", labels=LABEL), namespace=namespace)
    assert gates(admin.get("pods", "applied", namespace)) == [GATE]
