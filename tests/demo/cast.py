"""The nodes, the users and the manifests of the story."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial

from common.domain import keys
from common.domain.time import format_instant
from tests.controlplane.client import ApiClient
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.nodes import GPU
from tests.controlplane.polling import until

NODES = (("gpu-a", "h100", 8), ("gpu-b", "h100", 4), ("gpu-c", "a100", 4))
USERS = ("alice", "bob", "carol")
CLASSES = ("h100", "a100")
DEADLINE_S = 30.0


def furnish(control_plane: ControlPlane) -> None:
    """Add classes and a namespace for each user, who gets the ordinary role `edit` there and nothing else."""
    admin = control_plane.admin
    for name in CLASSES:
        admin.create({"apiVersion": keys.API_VERSION, "kind": "GPUClass", "metadata": {"name": name}, "spec": {}})
    for user in USERS:
        control_plane.create_namespace(user)
        admin.create(_role_binding(user), namespace=user)
    for name in CLASSES:
        until(partial(_counted, admin, name), DEADLINE_S, f"units of class {name} counted")
    for user in USERS:
        until(partial(_may_book, admin.as_user(user), user), DEADLINE_S, f"{user} may book")


def gpus_of(gpu_class: str) -> int:
    return sum(gpus for _, of, gpus in NODES if of == gpu_class)


def pod(name: str, gpu_class: str, units: int = 1) -> JsonObject:
    """An ordinary pod: nothing in it knows of reservations but the label of its class."""
    container = {"name": "main", "image": "example.invalid/train", "resources": {"limits": {GPU: str(units)}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {keys.CLASS_LABEL: gpu_class}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


def forged(name: str, gpu_class: str) -> JsonObject:
    """A pod that brings the toleration along."""
    manifest = pod(name, gpu_class)
    manifest["spec"]["tolerations"] = [{"key": keys.TAINT, "operator": "Exists", "effect": "NoSchedule"}]
    return manifest


def copied(name: str, gpu_class: str, token: str) -> JsonObject:
    """A pod that brings another pod's claim along."""
    manifest = pod(name, gpu_class)
    manifest["metadata"]["annotations"] = {keys.CLAIM: token}
    return manifest


def reservation(name: str, gpu_class: str, units: int, lasts: timedelta, start: datetime | None = None) -> JsonObject:
    """The shortest form, with a start where one is wanted."""
    spec: JsonObject = {"gpuClass": gpu_class, "units": units, "duration": f"{int(lasts.total_seconds())}s"}
    if start is not None:
        spec["start"] = format_instant(start)
    return {"apiVersion": keys.API_VERSION, "kind": "GPUReservation", "metadata": {"name": name}, "spec": spec}


def _role_binding(user: str) -> JsonObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{user}-edits"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }


def _counted(admin: ApiClient, name: str) -> bool:
    status = admin.get("gpuclasses.gpures.dev", name).get("status") or {}
    return bool((status.get("units") or {}).get("physical") == gpus_of(name))


def _may_book(client: ApiClient, namespace: str) -> bool:
    """Roles are put together by the controller manager, which takes a moment."""
    asked = {"namespace": namespace, "verb": "create", "group": keys.GROUP, "resource": "gpureservations"}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked},
    }
    answer = client.request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=review)
    return bool(answer.object["status"]["allowed"])
