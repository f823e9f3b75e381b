"""Says why a pod waits: annotation and condition in one write, an Event beside it, once for each change of reason."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from common.adapters.events import Type
from common.domain import keys, texts
from common.domain.errors import NotFound
from common.domain.pod import PodView
from common.domain.reasons import Hold
from common.domain.reservation import Granted, Reservation
from common.domain.time import Instant, format_instant
from reconciler.queue import Kind, Work
from reconciler.world import World

FIRST_AFTER = timedelta(seconds=5)
"""A pod that is let in sooner than this was told enough by the admission warning."""
MAX_TOLD = 100_000


@dataclass(frozen=True, slots=True)
class Told:
    reason: str
    reservation: str | None
    at: Instant


@dataclass(slots=True)
class Tellings:
    world: World
    _holds: dict[str, Hold] = field(default_factory=dict)
    _told: dict[str, Told] = field(default_factory=dict)

    def tell(self, pod: PodView, hold: Hold, slice_: Work) -> None:
        """Have it written when the pod has waited long enough and the reason's code is a new one."""
        due = pod.created + FIRST_AFTER
        if self.world.now < due:
            self.world.agenda.put(slice_, due)
            return
        if pod.held_reason == hold.reason and annotated_reason(pod) == hold.reason and not self._repeats(pod, hold):
            return
        self._holds[pod.uid] = hold
        self.world.touch(Work(Kind.TELLING, pod.namespace, pod.uid))

    def event_only(self, pod: PodView, told: Hold) -> None:
        """For pods that are not ours to hold: UnknownGpuClass, NoGpuRequest."""
        if self._repeats(pod, told):
            self._say(pod, told, "Warning")

    def admitted(self, pod: PodView, reservation: Reservation, granted: Granted) -> None:
        self._holds.pop(pod.uid, None)
        self._told.pop(pod.uid, None)
        until = self.world.display.instant(granted.window.end)
        note = f"admitted under reservation {reservation.name}: these GPUs are guaranteed until {until}"
        self.world.events.pod(pod, "RuntimeGuaranteed", "GuaranteeRuntime", note, "Normal")
        if pod.held_reason:
            self.world.touch(Work(Kind.TELLING, pod.namespace, pod.uid))

    async def handle(self, work: Work) -> None:
        pod = self.world.state.pod(work.namespace, work.name)
        hold = self._holds.pop(work.name, None)
        if pod is None or not pod.live:
            self._told.pop(work.name, None)
            return
        try:
            if pod.admitted or not pod.class_label:
                if pod.held_reason:
                    await self.world.writes.tell_pod(pod, _no_longer_held())
            elif hold is not None:
                if pod.held_reason != hold.reason or annotated_reason(pod) != hold.reason:
                    await self.world.writes.tell_pod(pod, _held(hold, self.world.now))
                self._say(pod, hold, "Normal")
        except NotFound:
            self._told.pop(work.name, None)

    def _repeats(self, pod: PodView, hold: Hold) -> bool:
        told = self._told.get(pod.uid)
        if told is None:
            # After a restart the condition says what an Event has said already.
            return pod.held_reason != hold.reason
        new_story = (told.reason, told.reservation) != (hold.reason, hold.reservation)
        repeat = self.world.event_repeat
        return new_story or (bool(repeat) and self.world.now - told.at >= repeat)

    def _say(self, pod: PodView, hold: Hold, type_: Type) -> None:
        while len(self._told) >= MAX_TOLD:
            self._told.pop(next(iter(self._told)))
        self._told[pod.uid] = Told(hold.reason, hold.reservation, self.world.now)
        self.world.events.pod(pod, hold.reason, "AdmitPod", texts.clip(hold.sentence, 1024), type_)


def annotated_reason(pod: PodView) -> str:
    return pod.annotations.get(keys.HELD, "").split(":", 1)[0]


def _held(hold: Hold, now: Instant) -> dict[str, Any]:
    until = format_instant(hold.until) if hold.until is not None else None
    condition = {
        "type": keys.HELD_CONDITION,
        "status": "True",
        "reason": str(hold.reason),
        "message": hold.sentence,
        "lastTransitionTime": format_instant(now),
    }
    return {
        "metadata": {"annotations": {keys.HELD: hold.annotation, keys.HELD_UNTIL: until}},
        "status": {"conditions": [condition]},
    }


def _no_longer_held() -> dict[str, Any]:
    """The condition is on held pods only."""
    return {"status": {"conditions": [{"$patch": "delete", "type": keys.HELD_CONDITION}]}}
