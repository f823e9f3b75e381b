"""A reconciler's loops on a fake API server and a fake clock: everything but the watch and the lease."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec

from common.adapters.events import EventRecorder
from common.adapters.wire import decode_class, decode_node, decode_pod, decode_reservation
from common.domain.errors import ApiError
from common.domain.texts import Display
from reconciler.agenda import Agenda
from reconciler.counts import Counts
from reconciler.loops.classes import Classes
from reconciler.loops.columns import Summaries
from reconciler.loops.counting import ClassCounts
from reconciler.loops.reservations import Reservations
from reconciler.loops.slices import Slices
from reconciler.loops.telling import Tellings
from reconciler.loops.unplaced import Unplaced
from reconciler.queue import Kind, NotNow, Work
from reconciler.state import ClusterState
from reconciler.world import World
from reconciler.writes import Writes
from tests.support import manifests
from tests.support.builders import NINE
from tests.support.clock import FakeClock
from tests.support.fake_kube import FakeKube, Object

MOST_TURNS = 500


class Leader:
    """One process: its own state and queue. Several of them on one FakeKube are several leaders."""

    def __init__(self, kube: FakeKube, clock: FakeClock, name: str = "a") -> None:
        self.touched: dict[Work, None] = {}
        self.leading = True
        self.is_synced = self.is_fresh = True
        self.deaf = False
        """The watches of a frozen process tell nothing."""
        self.state = ClusterState(lambda work: self.touched.setdefault(work, None))
        agenda: Agenda[Work] = Agenda(clock, lambda work: self.touched.setdefault(work, None))
        self.world = World(
            state=self.state,
            counts=Counts(self.state, clock, lambda: 0.0),
            clock=clock,
            agenda=agenda,
            touch=lambda work: self.touched.setdefault(work, None),
            writes=Writes(kube, lambda: self.leading, self.saw_pod, self.saw_reservation, self.saw_class),  # type: ignore[arg-type]
            events=EventRecorder(kube, clock, name, clock.monotonic),
            display=Display(),
            synced=lambda: self.is_synced,
            fresh=lambda: self.is_fresh,
            stamp=lambda: f"being confirmed by {name}",
            event_repeat=timedelta(minutes=30),
        )
        tellings = Tellings(self.world)
        self._handlers = {
            Kind.SLICE: Slices(self.world, tellings).handle,
            Kind.RESERVATION: Reservations(self.world).handle,
            Kind.CLASS: Classes(self.world).handle,
            Kind.TELLING: tellings.handle,
            Kind.SUMMARY: Summaries(self.world).handle,
            Kind.COUNT: ClassCounts(self.world).handle,
            Kind.UNPLACED: Unplaced(self.world, tellings).handle,
        }
        self._known: dict[tuple[str, str, str], Any] = {}

    def hear(self, plural: str, old: Object | None, new: Object | None) -> None:
        """What the watch tells."""
        if not self.deaf:
            self._take(plural, old, new)

    def saw_pod(self, pod: Any) -> None:
        """Read-your-writes is the reflector's work; here the fake tells every change at once."""

    saw_reservation = saw_class = saw_pod

    async def settle(self) -> None:
        """Handle what is touched until nothing is, or nothing may be decided now: that stays touched."""
        not_now: dict[Work, None] = {}
        for _ in range(MOST_TURNS):
            for work in self.world.agenda.pop_due(self.world.clock.now()):
                self.touched.setdefault(work, None)
            if not self.touched:
                self.touched = not_now
                return
            work = min(self.touched, key=lambda w: w.kind)
            del self.touched[work]
            try:
                await self._handlers[work.kind](work)
            except NotNow:
                not_now[work] = None
            except ApiError:
                self.touched.setdefault(work, None)
        message = f"does not settle: {list(self.touched)}"
        raise AssertionError(message)

    def _take(self, plural: str, old: Object | None, new: Object | None) -> None:
        decode, take = {
            "pods": (decode_pod, self.state.on_pod),
            "nodes": (decode_node, self.state.on_node),
            "gpuclasses": (decode_class, self.state.on_class),
            "gpureservations": (decode_reservation, self.state.on_reservation),
        }.get(plural, (None, None))
        if decode is None or take is None:
            return
        stored = new or old or {}
        key = (plural, stored["metadata"].get("namespace", ""), stored["metadata"]["name"])
        before = self._known.pop(key, None)
        after: Any = decode(msgspec.json.encode(new)) if new is not None else None
        if after is not None:
            self._known[key] = after
        take(before, after)  # type: ignore[operator]


class Stage:
    """A class h100 with one node of eight units, at nine o'clock."""

    def __init__(self, gpus: int = 8, spec: Mapping[str, Any] | None = None) -> None:
        self.clock = FakeClock(NINE)
        self.kube = FakeKube()
        self.leaders: list[Leader] = []
        self.kube.told = self._tell
        self.leader = self.join("a")
        self.kube.put("nodes", manifests.a_node(gpus=gpus))
        self.kube.put("gpuclasses", {**manifests.a_class(**(spec or {})), "status": {"confirmations": 0}})

    def join(self, name: str) -> Leader:
        """Another process that leads, or believes so."""
        leader = Leader(self.kube, self.clock, name)
        self.leaders.append(leader)
        for (plural, _, _), stored in self.kube.objects.items():
            leader.hear(plural, None, stored)
        return leader

    def book(self, name: str = "sprint", namespace: str = "alice", **spec: Any) -> None:
        """Create a reservation that nobody has judged yet."""
        wish = {"gpuClass": "h100", "units": 2, "duration": "4h", **spec}
        meta = manifests.metadata(name, namespace, generation=1)
        self.kube.put("gpureservations", {"metadata": meta, "spec": wish, "status": {"phase": "Pending"}})

    def change(self, name: str = "sprint", namespace: str = "alice", **spec: Any) -> None:
        """Change a reservation's spec, as its owner would."""
        stored = self.reservation(name, namespace)
        meta = {**stored["metadata"], "generation": stored["metadata"]["generation"] + 1}
        self.kube.put("gpureservations", {**stored, "metadata": meta, "spec": {**stored["spec"], **spec}})

    def reservation(self, name: str = "sprint", namespace: str = "alice") -> Object:
        return self.kube.get("gpureservations", namespace, name)

    def phase(self, name: str = "sprint", namespace: str = "alice") -> str:
        return str(self.reservation(name, namespace)["status"]["phase"])

    def pod(self, name: str = "trainer-0", namespace: str = "alice") -> Object:
        return self.kube.get("pods", namespace, name)

    def hold(self, name: str = "trainer-0", namespace: str = "alice", **other: Any) -> None:
        """Create a pod behind our gate."""
        stored = manifests.a_pod(name, namespace, gates=("gpures.dev/hold",), created=self.clock.now(), **other)
        self.kube.put("pods", stored)

    def place(self, name: str = "trainer-0", namespace: str = "alice") -> None:
        """Bind a pod to the node, and let it run there."""
        stored = self.pod(name, namespace)
        running = {"spec": {**stored["spec"], "nodeName": "node-1"}, "status": {**stored["status"], "phase": "Running"}}
        self.kube.put("pods", {**stored, **running})

    def gone(self, name: str = "trainer-0", namespace: str = "alice") -> bool:
        return ("pods", namespace, name) not in self.kube.objects

    def admitted(self, name: str = "trainer-0", namespace: str = "alice") -> bool:
        spec = self.pod(name, namespace)["spec"]
        tolerated = any(t["key"] == "gpu-class-reservation" for t in spec.get("tolerations", []))
        return tolerated and not spec.get("schedulingGates")

    async def settle(self) -> None:
        await self.leader.settle()

    async def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.settle()

    def _tell(self, plural: str, old: Object | None, new: Object | None) -> None:
        for leader in self.leaders:
            leader.hear(plural, old, new)
