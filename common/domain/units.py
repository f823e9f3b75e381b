"""Units of a pod and of a node, counted as the scheduler counts.

Source: component-helpers `resource.PodRequests` of Kubernetes 1.37, KEP-753 (sidecars), KEP-2837 (pod-level resources),
and reservation-api.md "Units, both ways".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from common.domain.gpu_class import GpuClass, Unit
from common.domain.pod import NodeView, Requests

_POD_LEVEL = ("cpu", "memory", "hugepages-")
_ZERO = Decimal(0)


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """Requests of one container, limits standing in where a request is absent; restartable = sidecar."""

    requests: Requests
    restartable: bool = False


def effective_requests(
    containers: Sequence[ContainerRequest],
    init_containers: Sequence[ContainerRequest] = (),
    overhead: Requests | None = None,
    pod_level: Requests | None = None,
) -> dict[str, Decimal]:
    """The larger of the running containers' sum and the most that starting up needs, plus overhead.

    A sidecar counts from its place in the order on: with every later init container, and with the containers.
    """
    running: dict[str, Decimal] = {}
    for container in containers:
        _add(running, container.requests)
    sidecars: dict[str, Decimal] = {}
    starting: dict[str, Decimal] = {}
    for container in init_containers:
        if container.restartable:
            _add(running, container.requests)
            _add(sidecars, container.requests)
            _raise_to(starting, sidecars)
        else:
            alone = dict(sidecars)
            _add(alone, container.requests)
            _raise_to(starting, alone)
    _raise_to(running, starting)
    running |= {name: quantity for name, quantity in (pod_level or {}).items() if name.startswith(_POD_LEVEL)}
    _add(running, overhead or {})
    return running


def pod_units(requests: Requests, unit: Unit) -> int:
    """Largest of request ÷ unit over the unit's resources, each rounded up; 0 when the pod asks for none of them."""
    return max(
        (
            int((requests.get(resource, _ZERO) / quantity).to_integral_value(ROUND_CEILING))
            for resource, quantity in unit.resources.items()
        ),
        default=0,
    )


def node_units(offer: Requests, unit: Unit, used_natively: Requests | None = None) -> int:
    """Smallest of offer ÷ unit, each rounded down, after what pods outside of the system use of native resources."""
    used = used_natively or {}
    counts = [
        int(((offer.get(resource, _ZERO) - used.get(resource, _ZERO)) / quantity).to_integral_value(ROUND_FLOOR))
        for resource, quantity in unit.resources.items()
    ]
    return max(0, min(counts, default=0))


def is_native(resource: str) -> bool:
    """Resources that Kubernetes itself defines have no domain (`cpu`, `memory`, …)."""
    return "/" not in resource


def counted_natively(gpu_class: GpuClass) -> bool:
    """Every pod asks for such resources, so only the exact toleration key counts as forging there (R2)."""
    return all(is_native(resource) for resource in gpu_class.unit.resources)


def asks_for(requests: Requests, gpu_class: GpuClass) -> bool:
    return any(requests.get(resource, _ZERO) > 0 for resource in gpu_class.unit.resources)


def declared_units(nodes: Sequence[NodeView], unit: Unit) -> int:
    """What the class's nodes have in all, whatever their condition: a rebooting node denies nobody's next month."""
    return sum(node_units(node.capacity, unit) for node in nodes)


def _add(total: dict[str, Decimal], more: Mapping[str, Decimal]) -> None:
    for resource, quantity in more.items():
        total[resource] = total.get(resource, _ZERO) + quantity


def _raise_to(total: dict[str, Decimal], least: Mapping[str, Decimal]) -> None:
    for resource, quantity in least.items():
        if quantity > total.get(resource, _ZERO):
            total[resource] = quantity
