"""Watches the cluster: the last version of each object for the views, and the whole history for the proofs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Self, TypeAlias

from tests.controlplane.discovery import JsonObject
from tests.controlplane.product import NAMESPACE
from tests.controlplane.recording import Change, Recorder
from tests.demo import cast, happenings, reading
from tests.demo.chronicle import Chronicle
from tests.demo.house import House
from tests.demo.model import ClassRow, Lane, Part, PodRow, Snapshot, State, Topic

LOOK_EVERY_S = 0.05
Window: TypeAlias = tuple[datetime, datetime]


@dataclass(eq=False)
class _Source:
    topic: Topic | None
    recorder: Recorder
    words: Callable[[JsonObject | None, JsonObject], Iterator[str]]
    taken: int = 0

    def changes(self) -> Sequence[Change]:
        """What concerns the story: a cluster may have pods of its own."""
        return [change for change in self.recorder.changes() if _concerns(change)]


def _concerns(change: Change) -> bool:
    namespace = change.object["metadata"].get("namespace")
    return namespace in (None, *cast.USERS) or change.object["kind"] == "Lease"


def _silent(before: JsonObject | None, after: JsonObject) -> Iterator[str]:
    del before, after
    return iter(())


class Watching:
    """Context manager: one recorder for each kind, and a thread that puts what they see into words."""

    def __init__(self, house: House, chronicle: Chronicle) -> None:
        admin = house.cluster.admin
        self._house = house
        self._chronicle = chronicle
        self._sources = {
            "pods": _Source(Topic.POD, Recorder(admin, "pods"), happenings.of_pod),
            "reservations": _Source(
                Topic.RESERVATION, Recorder(admin, "gpureservations.gpures.dev"), happenings.of_reservation
            ),
            "classes": _Source(None, Recorder(admin, "gpuclasses.gpures.dev"), _silent),
            "leases": _Source(
                Topic.PART, Recorder(admin, "leases.coordination.k8s.io", NAMESPACE), happenings.of_lease
            ),
            "events": _Source(None, Recorder(admin, "events"), _silent),
            "nodes": _Source(None, Recorder(admin, "nodes"), _silent),
        }
        self._last: dict[str, dict[str, JsonObject]] = {name: {} for name in self._sources}
        self._windows: dict[str, Window] = {}
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        with ExitStack() as starting:
            for source in self._sources.values():
                starting.enter_context(source.recorder)
            self._thread = threading.Thread(target=self._work, name="watching", daemon=True)
            self._thread.start()
            self._stack = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._stack.__exit__(kind, error, trace)

    def history(self, name: str) -> Sequence[Change]:
        """Every change of a kind since the start."""
        return self._sources[name].changes()

    def last(self, name: str) -> dict[str, JsonObject]:
        """The objects of a kind as they are now, by key."""
        self._take()
        with self._lock:
            return dict(self._last[name])

    def find(self, name: str, key: str) -> JsonObject | None:
        return self.last(name).get(key)

    def snapshot(self) -> Snapshot:
        """Everything that is shown, at this moment."""
        self._take()
        with self._lock:
            last = {name: list(found.values()) for name, found in self._last.items()}
        return Snapshot(
            now=datetime.now(UTC),
            elapsed=self._chronicle.elapsed,
            told=self._chronicle.told,
            parts=tuple(self._parts(last["leases"])),
            classes=tuple(sorted((_class_row(found) for found in last["classes"]), key=lambda row: -row.bookable)),
            lanes=tuple(_lane(found, self._windows.get(reading.key(found))) for found in last["reservations"]),
            pods=tuple(sorted((_pod_row(found) for found in last["pods"]), key=_place)),
            lines=tuple(self._chronicle.lines()),
        )

    def _work(self) -> None:
        while not self._ended.wait(LOOK_EVERY_S):
            self._take()

    def _take(self) -> None:
        with self._lock:
            news: list[tuple[float, Topic, str, str]] = []
            for name, source in self._sources.items():
                changes = source.changes()[source.taken :]
                source.taken += len(changes)
                for change in changes:
                    news += [(change.at, *line) for line in self._note(self._last[name], source, change)]
            for at, topic, who, text in sorted(news, key=lambda line: line[0]):
                self._chronicle.say(topic, who, text, at)

    def _note(self, known: dict[str, JsonObject], source: _Source, change: Change) -> Iterator[tuple[Topic, str, str]]:
        key = reading.key(change.object)
        before = known.pop(key, None) if change.type == "DELETED" else known.get(key)
        if change.type == "DELETED":
            words = iter(("deleted",)) if before else iter(())
        else:
            known[key] = change.object
            self._remember_window(key, change.object)
            words = source.words(before, change.object)
        if source.topic is not None:
            # The lease has no story of its own: its holders have.
            who = "reconciler" if source.topic is Topic.PART else key
            for text in words:
                yield source.topic, who, text

    def _remember_window(self, key: str, found: JsonObject) -> None:
        """The promise goes when the window is over, but its lane still shows where it was."""
        window = reading.granted_window(found)
        if window is not None:
            self._windows[key] = window

    def _parts(self, leases: Sequence[JsonObject]) -> Iterator[Part]:
        leaders = {reading.holder(lease) for lease in leases}
        for name, running in self._house.parts():
            yield Part(name, running, running and name in leaders)


def _class_row(found: JsonObject) -> ClassRow:
    units = (found.get("status") or {}).get("units") or {}
    return ClassRow(reading.key(found), units.get("bookable", 0), units.get("reserved", 0), units.get("claimed", 0))


def _lane(found: JsonObject, window: Window | None) -> Lane:
    phase = reading.phase(found)
    return Lane(
        name=reading.key(found),
        gpu_class=found["spec"]["gpuClass"],
        units=reading.granted_units(found) or found["spec"].get("units", 1),
        claimed=sum(reading.claims(found).values()),
        phase=phase,
        window=window,
        remark=reading.message(found) if phase == "Denied" else "",
    )


def _pod_row(found: JsonObject) -> PodRow:
    name, gpu_class, units = reading.key(found), reading.gpu_class(found), reading.units(found)
    if reading.gated(found):
        reason, sentence = reading.held(found)
        return PodRow(name, gpu_class, units, State.HELD, reason, sentence, reading.held_until(found))
    phase, node = reading.phase(found), reading.node(found)
    if phase in ("Succeeded", "Failed"):
        return PodRow(name, gpu_class, units, State.DONE, detail=f"was on {node}")
    if phase == "Running":
        return PodRow(name, gpu_class, units, State.RUNNING, detail=f"on {node}", until=reading.guaranteed_until(found))
    if reading.admitted(found):
        return PodRow(name, gpu_class, units, State.LET_IN, detail=f"on {node}" if node else "being placed")
    return PodRow(name, gpu_class, units, State.STUCK, detail="no toleration: kept off the GPU nodes by their taint")


def _place(row: PodRow) -> tuple[int, str]:
    return list(State).index(row.state), row.name
