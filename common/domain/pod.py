"""Pods and nodes as the decisions see them: just the fields that a decision reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from common.domain import keys
from common.domain.reservation import ObjectKey, Token
from common.domain.time import Instant

Requests = Mapping[str, Decimal]
"""Resource name to effective request of the whole pod, as the scheduler counts it."""


class PodPhase(StrEnum):
    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class Toleration:
    """Empty strings are what the API leaves out: empty key with Exists tolerates all, empty effect every effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Expression:
    """One match expression of node affinity: operator In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    labels: tuple[Expression, ...] = ()
    fields: tuple[Expression, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the pod may go: node selector and required node affinity (terms are ORed; None = no requirement)."""

    selector: Mapping[str, str] = field(default_factory=dict)
    terms: tuple[NodeTerm, ...] | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    key: ObjectKey
    uid: str
    version: str
    created: Instant
    class_label: str
    phase: PodPhase = PodPhase.PENDING
    node: str = ""
    deleting: bool = False
    gates: tuple[str, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    requests: Requests = field(default_factory=dict)
    placement: Placement = field(default_factory=Placement)
    owner: str = ""
    """`Kind/name` of the controller that people know (a Deployment, not its ReplicaSet); empty for a bare pod."""
    owner_api: str = ""
    owner_uid: str = ""
    """Empty for a Deployment: a pod tells the uid of its ReplicaSet only."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Only the keys of ours and those of seed 000 that we read or write."""
    annotated: bool = False
    """The pod has an annotations map, be it of others: a patch adds to it and never replaces it."""
    held_reason: str = ""
    """Reason of the condition `gpures.dev/Held` while it is True, else empty."""
    mirror: bool = False

    @property
    def name(self) -> str:
        return self.key.name

    @property
    def namespace(self) -> str:
        return self.key.namespace

    @property
    def live(self) -> bool:
        """Holds its units until the object is gone or its containers have ended."""
        return self.phase not in (PodPhase.SUCCEEDED, PodPhase.FAILED)

    @property
    def gated(self) -> bool:
        return keys.GATE in self.gates

    @property
    def foreign_gates(self) -> tuple[str, ...]:
        return tuple(gate for gate in self.gates if gate != keys.GATE)

    @property
    def token(self) -> Token | None:
        token = self.annotations.get(keys.CLAIM)
        return Token(token) if token else None

    @property
    def booking(self) -> ObjectKey:
        """The reservation that it was let in under; without a name where it was not."""
        return ObjectKey(self.namespace, self.annotations.get(keys.BOOKING_REFERENCE, ""))

    @property
    def admitted(self) -> bool:
        """Has our exact toleration and no gate of ours: the scheduler may place it on the class's nodes."""
        return not self.gated and Toleration(keys.TAINT, "Equal", self.class_label, "NoSchedule") in self.tolerations


@dataclass(frozen=True, slots=True)
class NodeView:
    name: str
    version: str
    labels: Mapping[str, str]
    class_label: str
    """Value of the taint `gpu-class-reservation`; a node belongs to a class by its taint alone, empty = none."""
    allocatable: Requests
    capacity: Requests
    ready: bool = True
    cordoned: bool = False

    @property
    def schedulable(self) -> bool:
        return self.ready and not self.cordoned
