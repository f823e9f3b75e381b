"""Tells whoever creates or changes a Job, CronJob, Deployment or StatefulSet what its pods will be told.

A warning and nothing else: never a patch, never a denial, no claim. Which changes come here say the match conditions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import msgspec

from common.adapters.wire import MetaWire, PodWire, pod_view
from common.adapters.wire.metadata import Time, utc
from common.domain import inventory, keys, routing, texts
from common.domain.admission import ask_of
from common.domain.gpu_class import GpuClass, Mode
from common.domain.pod import PodView
from common.domain.reasons import Hold, Reason
from common.domain.reservation import Token
from common.domain.time import SURE, Clock, Instant
from webhook.grant import TIMELESS, held_warning, names_a_node, unreserved, waits_all_the_same
from webhook.index import Index
from webhook.review import Decision, Request, allowed

Refusal = Callable[[PodView], tuple[str, str] | None]

_REPLACED = frozenset({Reason.RESERVATION_FULL, Reason.RESERVATION_FRAGMENTED, Reason.WAITING_FOR_UNITS})
"""After a change, the pods that these would wait for may be those that they replace."""
_TEMPLATE = "spec.template.metadata.labels"
_JOB_TEMPLATE = "spec.jobTemplate.spec.template.metadata.labels"


class SpecWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What a Job, a Deployment and a StatefulSet say of their pods."""

    template: PodWire = PodWire()
    active_deadline_seconds: int | None = None
    parallelism: int | None = None
    completions: int | None = None
    replicas: int | None = None
    suspend: bool | None = None


class JobTemplateWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire = MetaWire()
    spec: SpecWire = SpecWire()


class OwnerSpecWire(SpecWire, frozen=True, gc=False):
    job_template: JobTemplateWire | None = None


class OwnerStatusWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    start_time: Time | None = None


class WorkloadWire(msgspec.Struct, frozen=True, gc=False):
    kind: str = ""
    metadata: MetaWire = MetaWire()
    spec: OwnerSpecWire = OwnerSpecWire()
    status: OwnerStatusWire | None = None


@dataclass(frozen=True, slots=True)
class _Pods:
    """The pods that one owner is about to make: all alike, so one stands for all."""

    like: PodView
    count: int
    at_once: bool
    """False where they are made at another time: a CronJob's, those of a suspended Job, none at all."""
    changed: bool
    deadline_s: int | None
    started: Instant | None


class Owners:
    """Answers from this replica's view; what it does not know it does not tell."""

    def __init__(
        self,
        index: Index,
        refusal: Refusal,
        clock: Clock,
        synced: Callable[[], bool],
        display: texts.Display,
        uncertainty: timedelta = SURE,
    ) -> None:
        self._index = index
        self._refusal = refusal
        self._clock = clock
        self._synced = synced
        self._display = display
        self._uncertainty = uncertainty

    async def decide(self, request: Request[WorkloadWire], _within_s: float) -> Decision:
        owner = request.object
        if owner is None or not self._synced() or not self._index.labels:
            return allowed(request.uid)
        pods = _pods(owner, request.namespace, changed=request.old_object is not None)
        if not pods.like.class_label:
            return allowed(request.uid, self._outside(owner, request.namespace))
        warnings, reason = self._told(pods)
        return allowed(request.uid, warnings, reason)

    def _outside(self, owner: WorkloadWire, namespace: str) -> list[str]:
        """The label is somewhere on the owner, where no pod inherits it."""
        template = owner.spec.job_template
        places = [owner.metadata.labels, template.metadata.labels if template is not None else None]
        value = next((labels[keys.CLASS_LABEL] for labels in places if labels and keys.CLASS_LABEL in labels), None)
        gpu_class = self._index.class_of(value or "")
        if value is None or (gpu_class is not None and gpu_class.mode_in(namespace) is Mode.OBSERVE):
            return []
        return [texts.label_outside(owner.kind, value, _TEMPLATE if template is None else _JOB_TEMPLATE)]

    def _told(self, pods: _Pods) -> tuple[list[str], str]:
        """The warnings and the reason's code."""
        gpu_class = self._index.class_of(pods.like.class_label)
        if gpu_class is None:
            ask = routing.Ask(pods.like.namespace, pods.like.class_label, 0, pods.like.labels)
        else:
            ask = ask_of(pods.like, gpu_class)
        passed = routing.concerns(gpu_class, ask, self._index.labels)
        if gpu_class is None or passed is not None:
            told = passed.told if passed is not None else None
            return ([told.annotation], told.reason) if told is not None else ([], "")
        sure = gpu_class.mode_in(ask.namespace) is Mode.ENFORCE
        will = "will be" if sure and pods.at_once else "would be"
        refusal = self._refused(pods.like, gpu_class, sure=sure)
        if refusal is not None:
            return [f"its pods {will} refused: {refusal[0]}"], refusal[1]
        hold, let_in = self._first_hold(ask, gpu_class, pods.count)
        if hold is None or (pods.changed and hold.reason in _REPLACED) or self._unsure(hold):
            return [], ""
        if sure and not routing.held_in(gpu_class, ask.namespace):
            return [f"its pods: {warning}" for warning in unreserved(hold)], hold.reason
        rest = f"{pods.count - let_in} of its {pods.count} pods" if let_in else "its pods"
        subject = f"{rest} {will}" if pods.at_once else f"started now, {rest} {will}"
        return [self._held(pods, subject, hold, sure=sure), *waits_all_the_same(pods.like)], hold.reason

    def _refused(self, pod: PodView, gpu_class: GpuClass, *, sure: bool) -> tuple[str, str] | None:
        refusal = self._refusal(pod) if sure else None
        if refusal is None and pod.node:
            return names_a_node(gpu_class), "NodeName"
        return refusal

    def _first_hold(self, ask: routing.Ask, gpu_class: GpuClass, count: int) -> tuple[Hold | None, int]:
        """Why the first of `count` equal pods waits that does, and how many get in before it."""
        mine = {r.name: r for r in self._index.of_namespace(ask.namespace)}
        free = inventory.free_now(gpu_class, self._index.claimed(gpu_class.name))
        block = gpu_class.units.largest_block if gpu_class.units is not None else None
        now, let_in = self._clock.now(), 0
        while let_in < count:
            route = routing.route(ask, gpu_class, list(mine.values()), now, free, self._display, block)
            if isinstance(route, Hold):
                return route, let_in
            reservation = route.reservation
            room = reservation.room if free is None else min(reservation.room, free)
            fit = min(count - let_in, room // ask.units)
            taken = {Token(f"owner-{let_in}"): fit * ask.units}
            mine[reservation.name] = replace(reservation, claims={**reservation.claims, **taken})
            free = None if free is None else free - fit * ask.units
            let_in += fit
        return None, let_in

    def _held(self, pods: _Pods, subject: str, hold: Hold, *, sure: bool) -> str:
        now = self._clock.now()
        opens = hold.until if hold.reason is Reason.WAITING_FOR_RESERVATION else None
        if sure and opens is not None and hold.reservation and pods.deadline_s is not None:
            left_s = (opens - (pods.started or now)).total_seconds()
            if pods.deadline_s <= left_s:
                until = self._display.instant(opens)
                return texts.deadline_too_early(subject, until, hold.reservation, pods.deadline_s)
        return f"{subject} {held_warning(hold, now)}"

    def _unsure(self, hold: Hold) -> bool:
        return hold.reason not in TIMELESS and self._clock.uncertainty() > self._uncertainty


def _pods(owner: WorkloadWire, namespace: str, *, changed: bool) -> _Pods:
    """Raises MalformedObject."""
    spec: SpecWire = owner.spec
    if owner.spec.job_template is not None:
        spec = owner.spec.job_template.spec
    count = _count(spec)
    started = owner.status.start_time if owner.status is not None else None
    return _Pods(
        # A controller will make them: it need not be named for that to be known.
        like=replace(pod_view(spec.template, namespace), owner=f"{owner.kind}/{owner.metadata.name}"),
        count=1 if changed else max(1, count),
        at_once=count > 0 and not spec.suspend and owner.spec.job_template is None,
        changed=changed,
        deadline_s=spec.active_deadline_seconds,
        started=utc(started) if started is not None else None,
    )


def _count(spec: SpecWire) -> int:
    if spec.replicas is not None:
        return spec.replicas
    parallelism = 1 if spec.parallelism is None else spec.parallelism
    return parallelism if spec.completions is None else min(parallelism, spec.completions)
