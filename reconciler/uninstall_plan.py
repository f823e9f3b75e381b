"""What leaving a cluster takes, and in which order (R6). No I/O, no clock: `reconciler.uninstall` does it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from common.domain import keys, podpatch
from common.domain.errors import GpuresError
from common.domain.ports import JsonPatch

_HOLD: Final = ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies")
_WEBHOOKS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_LEADER: Final = ("deployments",)
_FENCE: Final = ("validatingadmissionpolicybindings", "validatingadmissionpolicies")
_KNOWN: Final = (*_HOLD, *_WEBHOOKS, *_LEADER, *_FENCE)


class CannotUninstall(GpuresError):
    """One sentence for the person who waits."""


@dataclass(frozen=True, slots=True)
class Target:
    """A Deployment of our namespace, or an object of admissionregistration.k8s.io, all of which are cluster-wide."""

    resource: str
    name: str


@dataclass(frozen=True, slots=True)
class Delete:
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class Stop:
    """Delete, and wait until their pods are gone."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True)
class OpenGates:
    pass


Step = Delete | Stop | OpenGates


def parse(texts: Sequence[str]) -> list[Target]:
    """From `resource/name`; raises CannotUninstall for a resource that has no place in the order."""
    targets = []
    for text in texts:
        resource, _, name = text.partition("/")
        if resource not in _KNOWN or not name:
            message = f"{text!r} is not resource/name with one of {', '.join(_KNOWN)}"
            raise CannotUninstall(message)
        targets.append(Target(resource, name))
    return targets


def plan(targets: Sequence[Target]) -> list[Step]:
    """The order of R6, whatever the order of the targets; bindings before the policies that they bind."""

    def of(resources: Sequence[str]) -> tuple[Target, ...]:
        return tuple(target for resource in resources for target in targets if target.resource == resource)

    return [Delete(of(_HOLD)), Delete(of(_WEBHOOKS)), Stop(of(_LEADER)), OpenGates(), Delete(of(_FENCE))]


@dataclass(slots=True)
class Quiet:
    """Whether what two lists showed, some seconds apart with nothing between them, is the end of it."""

    apart_s: float
    _empty_since: float | None = None

    def after(self, left: int, listed_at: float) -> bool:
        """Tell of a list that was asked for at `listed_at`."""
        if left:
            self._empty_since = None
            return False
        if self._empty_since is None:
            self._empty_since = listed_at
        return listed_at - self._empty_since >= self.apart_s


class _Gate(msgspec.Struct, frozen=True):
    name: str = ""


class _Meta(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    scheduling_gates: list[_Gate] | None = None


class _Condition(msgspec.Struct, frozen=True):
    type: str = ""


class _Status(msgspec.Struct, frozen=True):
    conditions: list[_Condition] | None = None


class Pod(msgspec.Struct, frozen=True):
    """Less than a PodView on purpose: no odd field elsewhere in a pod may leave it behind our gate."""

    metadata: _Meta
    spec: _Spec
    status: _Status = _Status()

    @property
    def gated(self) -> bool:
        return any(gate.name == keys.GATE for gate in self.spec.scheduling_gates or ())

    @property
    def stranded(self) -> bool:
        """Would wait for us, or says so."""
        return self.gated or self.told or keys.HELD in (self.metadata.annotations or {})

    @property
    def told(self) -> bool:
        return any(condition.type == keys.HELD_CONDITION for condition in self.status.conditions or ())


def opening(pod: Pod) -> JsonPatch:
    """Our gate out and every key of ours with it; only this version of the pod."""
    parts = podpatch.PodParts(
        gates=[gate.name for gate in pod.spec.scheduling_gates or ()],
        annotations=pod.metadata.annotations or None,
        labels=pod.metadata.labels or None,
    )
    return [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version},
        *podpatch.release_operations(parts, strip=True),
        *podpatch.map_operations("/metadata/annotations", parts.annotations, {keys.CLAIM: None}),
    ]


def untold(pod: Pod) -> dict[str, object]:
    """A strategic merge that takes our condition off, and no other."""
    gone = {"type": keys.HELD_CONDITION, "$patch": "delete"}
    return {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [gone]}}
