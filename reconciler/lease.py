"""The Lease object of the election, in and out (coordination.k8s.io/v1)."""

from typing import Any

import msgspec

from common.domain.errors import MalformedObject
from common.domain.time import Instant
from reconciler.election import LeaseRecord

NAME = "gpures-reconciler"


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_transitions: int | None = None
    acquire_time: str | None = None


class _Lease(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = _Spec()


_decoder = msgspec.json.Decoder(_Lease)


def decode_lease(body: bytes) -> LeaseRecord:
    """Raises MalformedObject."""
    try:
        lease = _decoder.decode(body)
    except msgspec.DecodeError as error:
        msg = f"the Lease cannot be read: {error}"
        raise MalformedObject(msg) from error
    spec = lease.spec
    return LeaseRecord(
        spec.holder_identity or "",
        spec.lease_transitions or 0,
        lease.metadata.resource_version,
        spec.acquire_time or "",
    )


def lease_body(namespace: str, holder: str, duration_s: int, now: Instant) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": _spec(holder, 1, duration_s, now, ""),
    }


def lease_operations(
    record: LeaseRecord, holder: str, duration_s: int, now: Instant, *, taken: bool
) -> list[dict[str, Any]]:
    """The whole spec under the precondition of the version that we saw: a miss is a clean 409."""
    spec = _spec(holder, record.transitions + taken, duration_s, now, "" if taken else record.acquired)
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": record.version},
        {"op": "add", "path": "/spec", "value": spec},
    ]


def _spec(holder: str, transitions: int, duration_s: int, now: Instant, acquired: str) -> dict[str, Any]:
    micro = now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "holderIdentity": holder,
        "leaseDurationSeconds": duration_s,
        "leaseTransitions": transitions,
        "acquireTime": acquired or micro,
        "renewTime": micro,
    }
