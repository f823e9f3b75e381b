"""Says why a pod waits: annotation and condition in one write, an Event beside it, once for each change of reason.

The Event also goes to the pod's owner, once for each reason and not for each pod: to the Job or StatefulSet that
controls it, and to a Deployment rather than its ReplicaSet.
"""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from common.adapters.events import Regarding, Type
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
NOT_PLACED = "NotPlaced"


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
    _owners: dict[tuple[str, str, str, str], Instant] = field(default_factory=dict)
    """When an owner (namespace, `Kind/name`, uid) was told a reason."""

    def tell(self, pod: PodView, hold: Hold, slice_: Work) -> None:
        """Have it written when the pod has waited long enough and the reason's code is a new one."""
        due = pod.created + FIRST_AFTER
        if self.world.now < due:
            self.world.agenda.put(slice_, due)
            return
        if not self._tells_anew(pod, hold) and not self._repeats(pod, hold):
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

    def removed(self, pod: PodView, over: Reservation | None) -> None:
        """Let in, never placed, deleted; `over` is the reservation that it was under, where it is still there."""
        note = texts.unplaced(pod, over, self.world.display)
        self.world.events.pod(pod, NOT_PLACED, "DeletePod", note, "Warning")
        if pod.owner and self._new_to_owner(pod, NOT_PLACED):
            self.world.events.record(Regarding.owner_of(pod), NOT_PLACED, "DeletePod", note, "Warning")

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
                if self._tells_anew(pod, hold):
                    await self.world.writes.tell_pod(pod, _held(hold, self.world.now))
                self._say(pod, hold, "Normal")
        except NotFound:
            self._told.pop(work.name, None)

    def _tells_anew(self, pod: PodView, hold: Hold) -> bool:
        """The pod says another reason, another instant, or is known to speak of another reservation."""
        told = self._told.get(pod.uid)
        until = format_instant(hold.until) if hold.until is not None else None
        return (
            (pod.held_reason, annotated_reason(pod)) != (hold.reason, hold.reason)
            or pod.annotations.get(keys.HELD_UNTIL) != until
            or (told is not None and told.reason == hold.reason and told.reservation != hold.reservation)
        )

    def forget_holds(self) -> None:
        """The term is over: whoever leads next decides anew."""
        self._holds.clear()

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
        note = texts.clip(hold.sentence, 1024)
        self.world.events.pod(pod, hold.reason, "AdmitPod", note, type_)
        if pod.owner and self._new_to_owner(pod, hold.reason):
            self.world.events.record(Regarding.owner_of(pod), hold.reason, "AdmitPod", note, type_)

    def _new_to_owner(self, pod: PodView, reason: str) -> bool:
        what = (pod.namespace, pod.owner, pod.owner_uid, str(reason))
        told = self._owners.get(what)
        if told is not None and self.world.now - told < self.world.event_repeat:
            return False
        while len(self._owners) >= MAX_TOLD:
            self._owners.pop(next(iter(self._owners)))
        self._owners[what] = self.world.now
        return True


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
