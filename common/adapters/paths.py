"""Paths of the API, with every variable part percent-encoded.

Without a namespace it is the collection of the whole cluster, without a name the collection; `sub` is a subresource.
"""

from urllib.parse import quote

from common.domain import keys
from common.domain.reservation import ObjectKey

_CORE = "/api/v1"
_OURS = f"/apis/{keys.GROUP}/{keys.VERSION}"
_EVENTS = "/apis/events.k8s.io/v1"
_LEASES = "/apis/coordination.k8s.io/v1"
_REGISTRATION = "/apis/admissionregistration.k8s.io/v1"

VERSION = "/version"
"""Answered to everybody; what we ask for to read the API server's clock."""


def pods(namespace: str = "", name: str = "", sub: str = "") -> str:
    """Pods; subresources `status`, `eviction`, `binding`."""
    return _path(_CORE, "pods", namespace, name, sub)


def nodes(name: str = "") -> str:
    """Nodes."""
    return _path(_CORE, "nodes", "", name)


def classes(name: str = "", sub: str = "") -> str:
    """GPUClasses; subresource `status`."""
    return _path(_OURS, "gpuclasses", "", name, sub)


def reservations(namespace: str = "", name: str = "", sub: str = "") -> str:
    """GPUReservations; subresource `status`."""
    return _path(_OURS, "gpureservations", namespace, name, sub)


def events(namespace: str, name: str = "") -> str:
    """Events of a namespace, in the group events.k8s.io."""
    return _path(_EVENTS, "events", namespace, name)


def leases(namespace: str, name: str = "") -> str:
    """Leases of a namespace."""
    return _path(_LEASES, "leases", namespace, name)


def secrets(namespace: str, name: str = "") -> str:
    """Secrets of a namespace."""
    return _path(_CORE, "secrets", namespace, name)


def mutating_webhooks(name: str) -> str:
    """One MutatingWebhookConfiguration."""
    return _path(_REGISTRATION, "mutatingwebhookconfigurations", "", name)


def validating_webhooks(name: str) -> str:
    """One ValidatingWebhookConfiguration."""
    return _path(_REGISTRATION, "validatingwebhookconfigurations", "", name)


def pod(key: ObjectKey, sub: str = "") -> str:
    """One pod."""
    return pods(key.namespace, key.name, sub)


def reservation(key: ObjectKey, sub: str = "") -> str:
    """One GPUReservation."""
    return reservations(key.namespace, key.name, sub)


def _path(root: str, resource: str, namespace: str, name: str, sub: str = "") -> str:
    if sub and not name:
        msg = f"the subresource {sub} belongs to one of the {resource}, and no name is given"
        raise ValueError(msg)
    parts = [root]
    if namespace:
        parts += ["namespaces", quote(namespace, safe="")]
    parts.append(resource)
    parts += [quote(part, safe="") for part in (name, sub) if part]
    return "/".join(parts)
