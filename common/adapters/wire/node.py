"""Nodes: from the API server's bytes to `NodeView`."""

from sys import intern

import msgspec

from common.adapters.wire.metadata import ConditionWire, MetaWire, Raw, decoded, malformed, shared
from common.adapters.wire.quantity import Quantity, quantities
from common.domain import keys
from common.domain.errors import MalformedObject
from common.domain.pod import NodeView


class TaintWire(msgspec.Struct, frozen=True, gc=False):
    key: str = ""
    value: str = ""
    effect: str = ""


class NodeSpecWire(msgspec.Struct, frozen=True, gc=False):
    unschedulable: bool = False
    taints: list[TaintWire] | None = None


class NodeStatusWire(msgspec.Struct, frozen=True, gc=False):
    allocatable: dict[str, Quantity] | None = None
    capacity: dict[str, Quantity] | None = None
    conditions: list[ConditionWire] | None = None


class NodeWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire = MetaWire()
    spec: NodeSpecWire = NodeSpecWire()
    status: NodeStatusWire = NodeStatusWire()


_node = msgspec.json.Decoder(NodeWire)


def decode_node(raw: Raw) -> NodeView:
    """Raises MalformedObject. A node without a Ready condition is not ready."""
    node = decoded(_node, raw, "node")
    try:
        allocatable, capacity = quantities(node.status.allocatable), quantities(node.status.capacity)
    except MalformedObject as error:
        raise malformed(node.metadata, "node", error) from error
    return NodeView(
        name=intern(node.metadata.name),
        version=node.metadata.resource_version,
        labels=shared(node.metadata.labels),
        class_label=_class_label(node.spec.taints),
        allocatable=allocatable,
        capacity=capacity,
        ready=any(c.type == "Ready" and c.status == "True" for c in node.status.conditions or ()),
        cordoned=node.spec.unschedulable,
    )


def _class_label(taints: list[TaintWire] | None) -> str:
    of_class = (taint.value for taint in taints or () if taint.key == keys.TAINT and taint.effect == "NoSchedule")
    return intern(next(of_class, ""))
