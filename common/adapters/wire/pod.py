"""Pods: from the API server's bytes to `PodView`.

`PodWire` is a struct on its own so that the webhook can hold one inside its AdmissionReview.
"""

from collections.abc import Iterable
from functools import lru_cache
from sys import intern
from typing import Final

import msgspec

from common.adapters.wire.metadata import ConditionWire, MetaWire, OwnerWire, Raw, decoded, light, malformed, shared
from common.adapters.wire.quantity import Quantity, quantities
from common.domain import keys
from common.domain.errors import MalformedObject
from common.domain.pod import Expression, NodeTerm, Placement, PodPhase, PodView, Requests, Toleration
from common.domain.reservation import ObjectKey
from common.domain.units import ContainerRequest, effective_requests

MIRROR: Final = "kubernetes.io/config.mirror"
_TEMPLATE_HASH: Final = "pod-template-hash"
_OURS: Final = (f"{keys.GROUP}/", "galends/")
_PHASES: Final = {phase.value: phase for phase in PodPhase} | {"": PodPhase.PENDING}


class ResourcesWire(msgspec.Struct, frozen=True, gc=False):
    requests: dict[str, Quantity] | None = None
    limits: dict[str, Quantity] | None = None


class ContainerWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    resources: ResourcesWire | None = None
    restart_policy: str | None = None


class GateWire(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class TolerationWire(msgspec.Struct, frozen=True, gc=False):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class ExpressionWire(msgspec.Struct, frozen=True, gc=False):
    key: str
    operator: str
    values: list[str] | None = None


class TermWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    match_expressions: list[ExpressionWire] | None = None
    match_fields: list[ExpressionWire] | None = None


class RequiredWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_selector_terms: list[TermWire] | None = None


class NodeAffinityWire(msgspec.Struct, frozen=True, gc=False):
    required: RequiredWire | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class AffinityWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: NodeAffinityWire | None = None


class PodSpecWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    scheduling_gates: list[GateWire] | None = None
    tolerations: list[TolerationWire] | None = None
    containers: list[ContainerWire] | None = None
    init_containers: list[ContainerWire] | None = None
    resources: ResourcesWire | None = None
    overhead: dict[str, Quantity] | None = None
    node_selector: dict[str, str] | None = None
    affinity: AffinityWire | None = None


class PodStatusWire(msgspec.Struct, frozen=True, gc=False):
    phase: str = ""
    conditions: list[ConditionWire] | None = None


class PodWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire = MetaWire()
    spec: PodSpecWire = PodSpecWire()
    status: PodStatusWire | None = None


_pod = msgspec.json.Decoder(PodWire)


def decode_pod(raw: Raw) -> PodView:
    """A pod as the API server stores it; raises MalformedObject."""
    return pod_view(decoded(_pod, raw, "pod"))


def pod_view(pod: PodWire, namespace: str = "") -> PodView:
    """`namespace` stands in where the object has none, as in an AdmissionReview; raises MalformedObject."""
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    labels = shared(metadata.labels)
    owner, owner_api, owner_uid = _owner(metadata)
    try:
        requests = pod_requests(spec)
    except MalformedObject as error:
        raise malformed(metadata, "pod", error) from error
    return PodView(
        key=ObjectKey(intern(metadata.namespace or namespace), metadata.name),
        uid=metadata.uid,
        version=metadata.resource_version,
        created=metadata.created,
        class_label=labels.get(keys.CLASS_LABEL, ""),
        phase=_PHASES.get(status.phase, PodPhase.UNKNOWN) if status else PodPhase.PENDING,
        node=intern(spec.node_name),
        deleting=metadata.deletion_timestamp is not None,
        gates=tuple([intern(gate.name) for gate in spec.scheduling_gates]) if spec.scheduling_gates else (),
        tolerations=_tolerations(spec.tolerations) if spec.tolerations else (),
        labels=labels,
        requests=requests,
        placement=_placement(spec),
        owner=owner,
        owner_api=owner_api,
        owner_uid=owner_uid,
        annotations=_annotations(metadata.annotations),
        annotated=bool(metadata.annotations),
        held_reason=_held_reason(status.conditions) if status and status.conditions else "",
        mirror=metadata.annotations is not None and MIRROR in metadata.annotations,
    )


def pod_requests(spec: PodSpecWire) -> Requests:
    """Effective requests, one shared mapping for all pods with the same resources; raises MalformedObject."""
    containers = tuple([_resources(container) for container in spec.containers or ()])
    init_containers = tuple([_resources(container) for container in spec.init_containers or ()])
    overhead, pod_level = _items(spec.overhead), _items(_effective(spec.resources))
    weight = _weight(overhead) + _weight(pod_level)
    for items, _ in containers + init_containers:
        weight += _weight(items)
    requests = _requests if weight <= _REMEMBERED else _requests.__wrapped__
    return requests(containers, init_containers, overhead, pod_level)


_REMEMBERED: Final = 4096
_EACH: Final = 64
_Items = tuple[tuple[str, Quantity], ...]
_Container = tuple[_Items, bool]


def _weight(items: _Items) -> int:
    """About how much it would take to remember these; texts of a quantity's length are refused anyway when long."""
    weight = _EACH
    for name, _ in items:
        weight += _EACH + len(name)
    return weight


def _items(mapping: dict[str, Quantity] | None) -> _Items:
    return tuple(mapping.items()) if mapping else ()


def _effective(resources: ResourcesWire | None) -> dict[str, Quantity] | None:
    """Limits stand in for absent requests, resource by resource."""
    if resources is None or not resources.limits:
        return resources.requests if resources else None
    return {**resources.limits, **(resources.requests or {})}


def _resources(container: ContainerWire) -> _Container:
    return _items(_effective(container.resources)), container.restart_policy == "Always"


@lru_cache(maxsize=4096)
def _requests(
    containers: tuple[_Container, ...], init_containers: tuple[_Container, ...], overhead: _Items, pod_level: _Items
) -> Requests:
    return effective_requests(
        [ContainerRequest(quantities(dict(items))) for items, _ in containers],
        [ContainerRequest(quantities(dict(items)), restartable=sidecar) for items, sidecar in init_containers],
        quantities(dict(overhead)),
        quantities(dict(pod_level)),
    )


def _tolerations(wires: Iterable[TolerationWire]) -> tuple[Toleration, ...]:
    parts = tuple([(t.key, t.operator, t.value, t.effect) for t in wires])
    weight = sum([_EACH + len(key) + len(op) + len(value) + len(effect) for key, op, value, effect in parts])
    tolerations = _toleration_tuple if weight <= _REMEMBERED else _toleration_tuple.__wrapped__
    return tolerations(parts)


@lru_cache(maxsize=1024)
def _toleration_tuple(parts: tuple[tuple[str, str, str, str], ...]) -> tuple[Toleration, ...]:
    return tuple([Toleration(*(intern(part) for part in four)) for four in parts])


_ANYWHERE: Final = Placement()


def _placement(spec: PodSpecWire) -> Placement:
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    if required is None and not spec.node_selector:
        return _ANYWHERE
    selector = spec.node_selector or {}
    if required is None:
        placed = _placed if light(selector, selector.values()) else _placed.__wrapped__
        return placed(tuple(selector.items()), None)
    terms = tuple(
        [
            NodeTerm(_expressions(term.match_expressions), _expressions(term.match_fields))
            for term in required.node_selector_terms or ()
        ]
    )
    return Placement(selector, terms)


@lru_cache(maxsize=1024)
def _placed(selector: tuple[tuple[str, str], ...], terms: tuple[NodeTerm, ...] | None) -> Placement:
    return Placement(dict(selector), terms)


def _expressions(wires: list[ExpressionWire] | None) -> tuple[Expression, ...]:
    return tuple([Expression(e.key, e.operator, tuple(e.values or ())) for e in wires or ()])


_BARE: Final = ("", "", "")


def _owner(metadata: MetaWire) -> tuple[str, str, str]:
    for owner in metadata.owner_references or ():
        if owner.controller:
            return _known_as(owner, metadata)
    return _BARE


def _known_as(owner: OwnerWire, metadata: MetaWire) -> tuple[str, str, str]:
    """`Kind/name`, apiVersion and uid; all pods of one owner share them."""
    api = intern(owner.api_version)
    if owner.kind == "ReplicaSet":
        template = (metadata.labels or {}).get(_TEMPLATE_HASH, "")
        deployment = owner.name.removesuffix(f"-{template}")
        if template and deployment and deployment != owner.name:
            return intern(f"Deployment/{deployment}"), api, ""
    return intern(f"{owner.kind}/{owner.name}"), api, intern(owner.uid)


_NO_ANNOTATIONS: Final[dict[str, str]] = {}


def _annotations(annotations: dict[str, str] | None) -> dict[str, str]:
    if not annotations:
        return _NO_ANNOTATIONS
    # What many pods say alike (reservation, instants, sentences) is kept once; a claim is one pod's alone.
    ours = {
        intern(key): value if key == keys.CLAIM else intern(value)
        for key, value in annotations.items()
        if key.startswith(_OURS)
    }
    return ours or _NO_ANNOTATIONS


def _held_reason(conditions: Iterable[ConditionWire]) -> str:
    for condition in conditions:
        if condition.type == keys.HELD_CONDITION and condition.status == "True":
            return intern(condition.reason)
    return ""
