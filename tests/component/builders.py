"""Objects for the tests of what `deploy/` ships, and how to know that a policy has seen a class."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until

API = "gpures.dev/v1alpha1"
RESERVATIONS = "gpureservations.gpures.dev"
CLASSES = "gpuclasses.gpures.dev"
GATE = "gpures.dev/hold"
TAINT = "gpu-class-reservation"
GPU = "nvidia.com/gpu"
DEADLINE_S = 20.0


def reservation(name: str, spec: JsonObject | None = None, **meta: JsonObject) -> JsonObject:
    """The shortest reservation, with other fields of the spec where they matter."""
    return {
        "apiVersion": API,
        "kind": "GPUReservation",
        "metadata": {"name": name, **meta},
        "spec": {"gpuClass": "h100", "duration": "4h"} | (spec or {}),
    }


def gpu_class(name: str, spec: JsonObject | None = None) -> JsonObject:
    """A class, with everything by default where nothing is said."""
    return {"apiVersion": API, "kind": "GPUClass", "metadata": {"name": name}, "spec": spec or {}}


def container(name: str = "main", **amounts: str) -> JsonObject:
    """A container that asks for amounts of `gpu`, `cpu` and `memory`, as limits and thereby as requests."""
    limits = {GPU if resource == "gpu" else resource: amount for resource, amount in amounts.items()}
    return {"name": name, "image": "test.example/none", "resources": {"limits": limits}}


def sidecar(name: str, **amounts: str) -> JsonObject:
    """An init container that stays."""
    return container(name, **amounts) | {"restartPolicy": "Always"}


def pod(
    name: str = "pod",
    *,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    containers: Sequence[JsonObject] | None = None,
    **spec: Any,
) -> JsonObject:
    """A pod that asks for one GPU, unless it is given other containers."""
    meta: JsonObject = {"name": name}
    if labels is not None:
        meta["labels"] = labels
    if annotations is not None:
        meta["annotations"] = annotations
    content = {"containers": containers or [container(gpu="1")], "automountServiceAccountToken": False, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": content}


def toleration(gpu_class: str) -> JsonObject:
    """The reserved toleration, as the webhook adds it."""
    return {"key": TAINT, "operator": "Equal", "value": gpu_class, "effect": "NoSchedule"}


def gates(stored: JsonObject) -> Sequence[str]:
    """Names of the scheduling gates of a pod."""
    return [gate["name"] for gate in stored["spec"].get("schedulingGates", [])]


@contextmanager
def class_in_force(admin: ApiClient, name: str, spec: JsonObject | None = None) -> Iterator[str]:
    """A class that the policies have seen, for as long as the block lasts."""
    admin.create(gpu_class(name))
    try:
        until(lambda: checked(admin, name), DEADLINE_S, f"check policy sees class {name}")
        until(lambda: held(admin, name), DEADLINE_S, f"hold policy sees class {name}")
        if spec is not None:
            admin.patch(CLASSES, name, {"spec": spec})
        yield name
    finally:
        admin.delete(CLASSES, name)
        until(lambda: not checked(admin, name), DEADLINE_S, f"check policy forgets class {name}")
        until(lambda: not held(admin, name), DEADLINE_S, f"hold policy forgets class {name}")


def checked(admin: ApiClient, name: str) -> bool:
    """Whether a forged pod of this class is refused."""
    try:
        admin.create(pod("checked", tolerations=[toleration(name)]), dry_run=True)
    except ApiError as error:
        if "gpures-check" in error.message:
            return True
        raise
    return False


def held(admin: ApiClient, name: str) -> bool:
    """Whether an ordinary pod of this class is held."""
    return GATE in gates(admin.create(pod("held", labels={"gpu-class": name}), dry_run=True).object)
