"""The same objects as `builders`, as the JSON that the API server stores."""

import json
from collections.abc import Mapping
from typing import Any

from common.adapters.wire import encode_duration, reservation_status
from common.domain import keys
from common.domain.reservation import Reservation
from common.domain.time import Instant, format_instant
from tests.support.builders import GPU, NINE

Manifest = dict[str, Any]


def raw(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest).encode()


def metadata(
    name: str, namespace: str = "", *, version: str = "1", created: Instant | None = NINE, **other: Any
) -> Manifest:
    """`created=None`: an object that is not stored yet."""
    given = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}" if namespace else f"uid-{name}",
        "resourceVersion": version,
        "creationTimestamp": format_instant(created) if created else None,
        **other,
    }
    return {key: value for key, value in given.items() if value not in ("", None)}


def container(gpus: int | str = 1, name: str = "main", **other: Any) -> Manifest:
    """GPUs as people give them: in the limits."""
    return {"name": name, "image": "busybox", "resources": {"limits": {GPU: str(gpus)}} if gpus else {}, **other}


def a_pod(
    name: str = "trainer-0",
    namespace: str = "alice",
    *,
    gpus: int | str = 1,
    gpu_class: str = "h100",
    gates: tuple[str, ...] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    version: str = "1",
    **meta: Any,
) -> Manifest:
    """`spec`, `status` and further keywords (for the metadata) are laid over the defaults."""
    classed = {keys.CLASS_LABEL: gpu_class} if gpu_class else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata(
            name,
            namespace,
            version=version,
            labels={**classed, **(labels or {})},
            annotations=dict(annotations or {}) or None,
            **meta,
        ),
        "spec": {
            "containers": [container(gpus)],
            **({"schedulingGates": [{"name": gate} for gate in gates]} if gates else {}),
            **(spec or {}),
        },
        "status": {"phase": "Pending", **(status or {})},
    }


def a_node(
    name: str = "node-1",
    *,
    gpus: int | str = 8,
    gpu_class: str = "h100",
    ready: bool = True,
    cordoned: bool = False,
    version: str = "1",
) -> Manifest:
    taint = {"key": keys.TAINT, "value": gpu_class, "effect": "NoSchedule"}
    resources = {GPU: str(gpus), "cpu": "64", "memory": "512Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": metadata(name, version=version, labels={"kubernetes.io/hostname": name}),
        "spec": {
            **({"taints": [taint]} if gpu_class else {}),
            **({"unschedulable": True} if cordoned else {}),
        },
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
        },
    }


def a_class(
    name: str = "h100", *, version: str = "1", status: Mapping[str, Any] | None = None, **spec: Any
) -> Manifest:
    """Keywords are fields of the spec; none is needed."""
    return {
        "apiVersion": keys.API_VERSION,
        "kind": "GPUClass",
        "metadata": metadata(name, version=version),
        "spec": spec,
        **({"status": dict(status)} if status else {}),
    }


def a_reservation(
    name: str = "sprint",
    namespace: str = "alice",
    *,
    version: str = "1",
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Manifest:
    """Keywords are fields of the spec; without any it is the shortest that people write."""
    return {
        "apiVersion": keys.API_VERSION,
        "kind": "GPUReservation",
        "metadata": metadata(name, namespace, version=version, generation=1),
        "spec": spec or {"gpuClass": "h100", "units": 2, "duration": "4h"},
        **({"status": dict(status)} if status else {}),
    }


def of_reservation(reservation: Reservation) -> Manifest:
    """The manifest that decodes to this value."""
    wish = reservation.wish
    spec = {
        "gpuClass": wish.gpu_class,
        "units": wish.units,
        "start": wish.start and format_instant(wish.start),
        "end": wish.end and format_instant(wish.end),
        "duration": None if wish.duration is None else encode_duration(wish.duration),
        "pods": {"matchLabels": dict(wish.pods)} if wish.pods else None,
        "cancel": wish.cancel or None,
        "type": str(wish.type),
    }
    stamps = {keys.CREATED_BY: reservation.stamped_created_by, keys.CHANGED_BY: reservation.stamped_changed_by}
    return {
        "apiVersion": keys.API_VERSION,
        "kind": "GPUReservation",
        "metadata": metadata(
            reservation.name,
            reservation.namespace,
            version=reservation.version,
            created=reservation.created,
            generation=reservation.generation,
            annotations={key: value for key, value in stamps.items() if value} or None,
        )
        | {"uid": reservation.uid},
        "spec": {key: value for key, value in spec.items() if value is not None},
        "status": reservation_status(reservation),
    }


def sent(manifest: Manifest) -> Manifest:
    """The manifest as somebody sends it: without what only the API server writes."""
    written = ("uid", "resourceVersion", "creationTimestamp", "generation")
    kept = {key: value for key, value in manifest["metadata"].items() if key not in written}
    return {**{key: value for key, value in manifest.items() if key != "status"}, "metadata": kept}
