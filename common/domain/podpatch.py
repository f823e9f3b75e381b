"""JSON Patch operations on a pod, built by hand from what the pod has: the webhook's answers, the reconciler's writes.

A patch that does not apply is a 500 even under `failurePolicy: Ignore` (feasibility.md), so nothing here assumes that
a parent exists or that an item has its place. Every function gives no operations for a pod that already is as asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Final

from common.domain import keys
from common.domain.gpu_class import GpuClass
from common.domain.pod import PodView, Toleration
from common.domain.ports import JsonPatch
from common.domain.reasons import Hold
from common.domain.reservation import Granted, Reservation, ReservationType, Token
from common.domain.time import Instant, Window, format_instant
from common.domain.tolerations import reserved_toleration

GUARANTEED: Final = "guaranteed"

_KINDS = {
    ReservationType.BOOKING: "booking",
    ReservationType.ON_DEMAND: "on_demand",
    ReservationType.BEST_EFFORT: "best_effort",
}
_HELD = (keys.HELD, keys.HELD_UNTIL)
_ADMITTED = tuple(sorted(keys.POD_OUTPUTS - {keys.CLAIM, *_HELD}))


@dataclass(frozen=True, slots=True)
class PodParts:
    """What a patch has to know of a pod.

    A map that is None is absent (or empty) and gets created whole. A map that is given exists, and gets single
    additions: it may leave out keys that are none of ours.
    """

    gates: Sequence[str] = ()
    tolerations: Sequence[Toleration] = ()
    annotations: Mapping[str, str] | None = None
    labels: Mapping[str, str] | None = None

    @property
    def gated(self) -> bool:
        return keys.GATE in self.gates


def parts_of(pod: PodView) -> PodParts:
    """A pod on its way in, or a stored one, as a patch has to know it."""
    annotations = pod.annotations if pod.annotated else None
    return PodParts(pod.gates, pod.tolerations, annotations, pod.labels or None)


@dataclass(frozen=True, slots=True)
class Grant:
    """One pod let in under one reservation. `guaranteed_until` reaches as far as claims of the token stand (R3)."""

    token: Token
    reservation: str
    kind: ReservationType
    window: Window
    units: int
    class_label: str
    class_name: str
    guaranteed_until: Instant
    admitted_at: Instant

    @property
    def guarantee_annotations(self) -> dict[str, str]:
        """What is true at every re-stamp as well; the admission instant is written once."""
        left = max(timedelta(), self.guaranteed_until - self.admitted_at)
        return {
            keys.BOOKING_REFERENCE: self.reservation,
            keys.RUNTIME_LIMIT: str(int(left.total_seconds())),
            keys.GUARANTEED_UNTIL: format_instant(self.guaranteed_until),
            keys.GUARANTEE_STATUS: GUARANTEED,
            keys.RESERVATION_KIND: _KINDS[self.kind],
            keys.RESERVATION_START: format_instant(self.window.start),
            keys.RESERVATION_END: format_instant(self.window.end),
            keys.RESERVATION_GPU_COUNT: str(self.units),
            keys.GPU_CLASS_NAME: self.class_name,
        }

    @property
    def annotations(self) -> dict[str, str]:
        return {
            keys.CLAIM: self.token,
            keys.ADMITTED_AT: format_instant(self.admitted_at),
            **self.guarantee_annotations,
        }


def grant_of(reservation: Reservation, granted: Granted, gpu_class: GpuClass, token: Token, now: Instant) -> Grant:
    """The grant that a first claim gives: its guarantee ends with this reservation's window."""
    return Grant(
        token=token,
        reservation=reservation.name,
        kind=reservation.wish.type,
        window=granted.window,
        units=granted.units,
        class_label=gpu_class.label,
        class_name=gpu_class.display_name or gpu_class.name,
        guaranteed_until=granted.window.end,
        admitted_at=now,
    )


def grant_operations(pod: PodParts, grant: Grant) -> JsonPatch:
    """Toleration, annotations and label in; our gate and the reason for waiting out."""
    return [
        *_tolerate(pod.tolerations, reserved_toleration(grant.class_label)),
        *map_operations("/metadata/annotations", pod.annotations, {**grant.annotations, **dict.fromkeys(_HELD)}),
        *map_operations("/metadata/labels", pod.labels, {keys.RESERVATION_LABEL: grant.reservation}),
        *_without_gate(pod.gates),
    ]


def hold_operations(pod: PodParts, hold: Hold, token: Token | None = None) -> JsonPatch:
    """Our gate and the reason in, whatever only an admitted pod carries out.

    `token` is that of a claim still under way: the pod is opened on it once it stands. None leaves the annotation as
    it is.
    """
    annotations: dict[str, str | None] = {
        **dict.fromkeys(_ADMITTED),
        keys.HELD: hold.annotation,
        keys.HELD_UNTIL: format_instant(hold.until) if hold.until is not None else None,
    }
    if token is not None:
        annotations[keys.CLAIM] = token
    return [
        *map_operations("/metadata/annotations", pod.annotations, annotations),
        *map_operations("/metadata/labels", pod.labels, {keys.RESERVATION_LABEL: None}),
        *_with_gate(pod.gates),
    ]


def release_operations(pod: PodParts, *, strip: bool, token: Token | None = None) -> JsonPatch:
    """For a pod that nobody holds: our gate and its reason out, nothing for a pod without a gate.

    `strip` also takes out what only an admitted pod carries; `token` is that of a claim still under way.
    """
    annotations: dict[str, str | None] = dict.fromkeys(_HELD) if pod.gated or strip else {}
    if strip:
        annotations |= dict.fromkeys(_ADMITTED)
    if token is not None:
        annotations[keys.CLAIM] = token
    return [
        *map_operations("/metadata/annotations", pod.annotations, annotations),
        *(map_operations("/metadata/labels", pod.labels, {keys.RESERVATION_LABEL: None}) if strip else ()),
        *_without_gate(pod.gates),
    ]


def foreign_outputs(pod: PodParts) -> list[str]:
    """Keys that only we write, on a pod that we have not let in yet.

    The hold policy writes the reason together with our gate, so a reason is foreign only where that gate is not.
    """
    annotations = pod.annotations or {}
    found = [key for key in _ADMITTED if key in annotations]
    if not pod.gated:
        found += [key for key in _HELD if key in annotations]
    if keys.RESERVATION_LABEL in (pod.labels or {}):
        found.append(keys.RESERVATION_LABEL)
    return found


def map_operations(path: str, present: Mapping[str, str] | None, wanted: Mapping[str, str | None]) -> JsonPatch:
    """Bring entries of a string map to what is wanted; None takes an entry out."""
    if present is None:
        value = {key: text for key, text in wanted.items() if text is not None}
        return [{"op": "add", "path": path, "value": value}] if value else []
    operations: JsonPatch = []
    for key, text in wanted.items():
        have = present.get(key)
        if text is None:
            if have is not None:
                operations.append({"op": "remove", "path": f"{path}/{_escaped(key)}"})
        elif have != text:
            operations.append({"op": "add", "path": f"{path}/{_escaped(key)}", "value": text})
    return operations


@lru_cache(maxsize=256)
def _escaped(key: str) -> str:
    """RFC 6901: a key as one step of a JSON pointer."""
    return key.replace("~", "~0").replace("/", "~1")


def _tolerate(present: Sequence[Toleration], toleration: Toleration) -> JsonPatch:
    if toleration in present:
        return []
    value = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    if not present:
        return [{"op": "add", "path": "/spec/tolerations", "value": [value]}]
    return [{"op": "add", "path": "/spec/tolerations/-", "value": value}]


def _with_gate(gates: Sequence[str]) -> JsonPatch:
    if keys.GATE in gates:
        return []
    gate = {"name": keys.GATE}
    if not gates:
        return [{"op": "add", "path": "/spec/schedulingGates", "value": [gate]}]
    return [{"op": "add", "path": "/spec/schedulingGates/-", "value": gate}]


def _without_gate(gates: Sequence[str]) -> JsonPatch:
    places = [place for place, gate in enumerate(gates) if gate == keys.GATE]
    if not places:
        return []
    if len(places) == len(gates):
        return [{"op": "remove", "path": "/spec/schedulingGates"}]
    # From the back, so that each removal leaves the places before it as they are.
    return [{"op": "remove", "path": f"/spec/schedulingGates/{place}"} for place in reversed(places)]
