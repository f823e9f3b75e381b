"""Odd but legal objects: no policy of ours ever refuses one because an expression could not be evaluated."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pytest

from tests.component.builders import CLASSES, DEADLINE_S, RESERVATIONS, class_in_force, container, pod, reservation
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.install import install
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

T = TypeVar("T")
NAME = "odd-h100"
AMOUNT = 200
USER = "odd@example.com"
LARGE_IN = 50
"""One pod in so many has more variables than are judged: the API server itself takes long over them."""


class Chance:
    """The same draws in every run."""

    def __init__(self, seed: int) -> None:
        self._drawn = itertools.count(seed)

    def choice(self, choices: Sequence[T]) -> T:
        return choices[zlib.crc32(str(next(self._drawn)).encode()) % len(choices)]


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> Iterator[ApiClient]:
    install(control_plane.admin)
    with class_in_force(control_plane.admin, NAME):
        yield control_plane.admin


@pytest.fixture(scope="module")
def user(control_plane: ControlPlane, admin: ApiClient) -> ApiClient:
    """May do everything and breaks no glass."""
    group = "rbac.authorization.k8s.io"
    role = {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"}
    subject = {"apiGroup": group, "kind": "User", "name": USER}
    body = {"apiVersion": f"{group}/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "odd"}}
    admin.apply(body | {"roleRef": role, "subjects": [subject]})
    client = admin.as_user(USER, ["system:authenticated"])
    until(lambda: client.items("namespaces"), DEADLINE_S, "the user may do everything", retry_on=(ApiError,))
    return client


def _containers(some: Chance) -> list[JsonObject]:
    def one(name: str) -> JsonObject:
        return some.choice(
            [
                {"name": name, "image": "none"},
                {"name": name, "image": "none", "resources": {}},
                container(name, cpu="0"),
                container(name, **{"vendor.example/thing": some.choice(["0", "1", "1k", "2e0"])}),
                {"name": name, "image": "none", "resources": {"requests": {"cpu": "1e-3", "memory": "128974848000m"}}},
                {"name": name, "image": "none", "resources": {"limits": {"hugepages-2Mi": "2Mi", "memory": "1Gi"}}},
                {"name": name, "image": "none", "env": [{"name": "EMPTY"}, {"name": "FULL", "value": "x" * 5000}]},
                {"name": name, "image": "none", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]},
                {
                    "name": name,
                    "image": "none",
                    "env": [{"name": "N", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
                    "envFrom": [{"configMapRef": {"name": "none", "optional": True}}],
                },
            ]
        )

    many = {"name": "many", "image": "none", "env": [{"name": f"V{n}"} for n in range(2001)]}
    return [one(f"c{n}") for n in range(some.choice([1, 1, 2, 3, 20]))] + (
        [many] if some.choice(range(LARGE_IN)) == 0 else []
    )


def _odd(some: Chance, number: int) -> JsonObject:
    """Every field is there or not, empty or full, by chance."""
    meta: dict[str, list[Any]] = {
        "labels": [None, {}, {"a": ""}, {"gpures.example/b": "c"}, {"gpu-class-x": "h100"}],
        "annotations": [None, {}, {"a": ""}, {"gpures.dev": "no key of ours"}, {f"k{n}": "v" for n in range(500)}],
        "finalizers": [None, [], ["team.example/x"]],
        "ownerReferences": [None, []],
    }
    spec: dict[str, list[Any]] = {
        "tolerations": [
            None,
            [],
            [{"operator": "Exists"}],
            [{"key": f"k{n}", "operator": "Exists"} for n in range(101)],
        ],
        "schedulingGates": [None, [], [{"name": "team.example/a"}, {"name": "team.example/b"}]],
        "volumes": [None, [], [{"name": "e", "emptyDir": {}}], [{"name": "h", "hostPath": {"path": "/nvidia/dev"}}]],
        "initContainers": [None, [], [container("i")], [container("i") | {"restartPolicy": "Always"}]],
        "nodeSelector": [None, {}, {"a": "b"}],
        "affinity": [None, {}, {"nodeAffinity": {}}],
        "hostNetwork": [None, True, False],
        "resources": [None, {"requests": {"cpu": "10"}, "limits": {"cpu": "10"}}],
        "resourceClaims": [None, [{"name": "r", "resourceClaimName": "none"}]],
        "os": [None, {"name": "linux"}],
        "activeDeadlineSeconds": [None, 5],
    }
    chosen = {field: some.choice(choices) for field, choices in spec.items()}
    if chosen["resources"]:
        chosen["initContainers"] = None
    given = {field: content for field, content in chosen.items() if content is not None}
    manifest = pod(f"odd-{number}", containers=[container()] if chosen["resources"] else _containers(some), **given)
    drawn = {field: some.choice(choices) for field, choices in meta.items()}
    manifest["metadata"] |= {field: content for field, content in drawn.items() if content is not None}
    return manifest


def _refusals(send: Any) -> str:
    """The sentence of a policy; empty when there is none."""
    try:
        send()
    except ApiError as error:
        return error.message if "AdmissionPolicy" in error.message else f"not legal after all: {error.message}"
    return ""


def test_two_hundred_odd_pods_are_stored_changed_and_reported_on(user: ApiClient, namespace: str) -> None:
    some = Chance(4)
    wrong: list[str] = []
    for number in range(AMOUNT):
        manifest = _odd(some, number)
        name = manifest["metadata"]["name"]
        debugger = {"spec": {"ephemeralContainers": [{"name": "d", "image": "none"}]}}
        condition = {"status": {"conditions": [{"type": "team.example/Seen", "status": "True"}]}}
        wrong += filter(
            None,
            [
                _refusals(lambda m=manifest: user.create(m, namespace=namespace)),
                _refusals(lambda n=name: user.patch("pods", n, {"metadata": {"labels": {"x": "y"}}}, namespace)),
                _refusals(lambda n=name: user.patch("pods", n, {"metadata": {"labels": None}}, namespace)),
                _refusals(lambda n=name: user.patch("pods", n, {"metadata": {"annotations": None}}, namespace)),
                _refusals(
                    lambda n=name, c=condition: user.patch(
                        "pods", n, c, namespace, kind="strategic", subresource="status"
                    )
                ),
                _refusals(
                    lambda n=name, d=debugger: user.patch(
                        "pods", n, d, namespace, kind="strategic", subresource="ephemeralcontainers"
                    )
                ),
                _refusals(lambda n=name: user.patch("pods", n, {"metadata": {"finalizers": None}}, namespace)),
            ],
        )
    assert wrong == []


def test_the_status_of_our_kinds_is_written_from_nothing(admin: ApiClient, namespace: str) -> None:
    ours = admin.as_user("system:serviceaccount:gpures-system:gpures-webhook", ["system:masters"])
    admin.create(reservation("bare"), namespace=namespace)
    nothing: list[JsonObject | None] = [{}, None, {"claims": {}}]
    for status in nothing:
        ours.patch(RESERVATIONS, "bare", {"status": status}, namespace, subresource="status", dry_run=True)
    reconciler = admin.as_user("system:serviceaccount:gpures-system:gpures-reconciler", ["system:masters"])
    reconciler.patch(CLASSES, NAME, {"status": {"conditions": []}}, subresource="status", dry_run=True)


def test_a_binding_of_nothing_is_answered_by_the_api_server(admin: ApiClient, namespace: str) -> None:
    scheduler = admin.as_user("system:kube-scheduler", ["system:authenticated"])
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "none"},
        "target": {"kind": "Node", "name": "none"},
    }
    with pytest.raises(ApiError) as caught:
        scheduler.request("POST", f"/api/v1/namespaces/{namespace}/pods/none/binding", body=body)
    assert "AdmissionPolicy" not in caught.value.message
