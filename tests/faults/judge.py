"""The promises I1, I2, I3, I5 and I8, written a second time: versions in the API server's order in, faults out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from tests.faults.facts import LIVE_PHASES, PodSeen, Promise, ReservationSeen, Seen

LATE: Final = timedelta(seconds=10)
"""A write that was under way when its window ended may land so much later: no request of ours lives longer."""

STORED: Final = "I5, stored"
"""A forgery that is stored and held opens no door, yet the guard should have refused it."""


@dataclass(frozen=True)
class Violation:
    """What was broken, by which version of which object, and when."""

    promise: str
    what: str
    version: int
    at: datetime
    text: str

    def __str__(self) -> str:
        return f"{self.promise}: {self.what} at version {self.version}, {self.at:%H:%M:%S.%f} UTC: {self.text}"


class Judge:
    """Takes each version once. `nodes`: where reserved GPUs are. `ending`: pods whose end the test itself asked for."""

    def __init__(self, gpu_class: str, capacity: int) -> None:
        self.violations: list[Violation] = []
        self.notes: list[str] = []
        self.entries: dict[str, PodSeen] = {}
        """The version of each pod that was the first to be let in, by its uid."""
        self.created: set[str] = set()
        self._gpu_class = gpu_class
        self.capacity = capacity
        self._pods: dict[str, PodSeen] = {}
        self._reservations: dict[str, ReservationSeen] = {}
        self._named: dict[tuple[str, str], list[str]] = {}
        self._promised: dict[str, Promise] = {}
        """The last promise of a reservation, which stays when it has ended."""
        self._ever: dict[str, set[str]] = {}
        """Tokens that ever stood in a reservation."""
        self._carried: set[str] = set()
        """Tokens that a pod ever had."""

    def take(self, seen: Seen, ending: frozenset[str] | set[str], nodes: frozenset[str]) -> None:
        found: Iterable[tuple[str, str]] = ()
        if isinstance(seen, PodSeen):
            found = list(self._pod(self._pods.get(seen.uid), seen, ending, nodes))
            self._pods[seen.uid] = seen
            self._carried.add(seen.token)
            if not seen.lives:
                self._pods.pop(seen.uid)
        elif isinstance(seen, ReservationSeen) and seen.gpu_class == self._gpu_class:
            found = list(self._reservation(seen))
            if seen.gone:
                self._reservations.pop(seen.uid, None)
        kind = "pod" if isinstance(seen, PodSeen) else "reservation"
        what = f"{kind} {seen.namespace}/{seen.name}"
        self.violations += [Violation(promise, what, seen.version, seen.arrived, text) for promise, text in found]

    def orphans(self) -> Mapping[str, int]:
        """Units that are claimed for pods that never came, by token."""
        return {
            token: units
            for reservation in self._reservations.values()
            if reservation.promise
            for token, units in reservation.claims.items()
            if token not in self._carried
        }

    def forget(self) -> None:
        """Versions begin anew, as after a restored backup: what was known says nothing about what comes."""
        self._pods.clear()
        self._reservations.clear()

    def adopt(self, pods: Iterable[PodSeen]) -> None:
        """These were let in when nobody looked."""
        for pod in pods:
            self.entries.setdefault(pod.uid, pod)

    # Reservations

    def _reservation(self, new: ReservationSeen) -> Iterable[tuple[str, str]]:
        old = self._reservations.get(new.uid)
        if new.uid not in self._ever:
            self._named.setdefault((new.namespace, new.name), []).append(new.uid)
        self._reservations[new.uid] = new
        self._ever.setdefault(new.uid, set()).update(new.claims)
        if new.gone:
            return
        if new.promise:
            self._promised[new.uid] = new.promise
            claimed = sum(new.claims.values())
            if claimed > new.promise.units:
                yield "I2", f"{claimed} units claimed of {new.promise.units}: {dict(new.claims)}"
            if old and old.promise and new.arrived < new.promise.end:
                yield from self._dropped(old.claims, new)
        yield from self._over_capacity()
        yield from self._over_bound(new.uid)

    def _dropped(self, before: Mapping[str, int], new: ReservationSeen) -> Iterable[tuple[str, str]]:
        for pod in self._pods.values():
            lost = pod.token in before and pod.token not in new.claims
            if lost and pod.let_in and pod.lives and (pod.namespace, pod.reservation) == (new.namespace, new.name):
                yield "I8", f"claim {pod.token} dropped while its pod {pod.name} lives and the window is open"

    def _over_capacity(self) -> Iterable[tuple[str, str]]:
        kept = [each.promise for each in self._reservations.values() if each.phase in LIVE_PHASES and each.promise]
        for one in kept:
            units = sum(each.units for each in kept if each.start <= one.start < each.end)
            if units > self.capacity:
                yield "I2", f"{units} units promised from {one.start:%H:%M:%S} on, {self.capacity} are there"

    def _over_bound(self, uid: str) -> Iterable[tuple[str, str]]:
        reservation, promise = self._reservations.get(uid), self._promised.get(uid)
        if reservation is None or promise is None:
            return
        tokens = self._ever[uid]
        bound = sum(pod.units for pod in self._pods.values() if pod.lives and pod.node and pod.token in tokens)
        if bound > promise.units:
            yield "I2", f"pods with {bound} units are bound under {reservation.name}, which has {promise.units}"

    # Pods

    def _pod(
        self, old: PodSeen | None, new: PodSeen, ending: frozenset[str] | set[str], nodes: frozenset[str]
    ) -> Iterable[tuple[str, str]]:
        if new.role == "attacker":
            yield from _forgery(old, new)
        self._pods[new.uid] = new
        if new.gone or new.leaving:
            if old and not old.leaving and new.uid in self.entries and new.uid not in ending:
                yield from self._ended(new)
            return
        if new.let_in and new.uid not in self.entries:
            if old is None:
                self.created.add(new.uid)
            self.entries[new.uid] = new
            yield from self._entry(new, patched=old is not None)
        if new.node and not (old and old.node):
            if new.node in nodes and new.units and not new.let_in:
                yield "I1", f"bound to {new.node} without having been let in"
            for uid, tokens in self._ever.items():
                if new.token and new.token in tokens:
                    yield from self._over_bound(uid)

    def _entry(self, pod: PodSeen, *, patched: bool) -> Iterable[tuple[str, str]]:
        uids = self._named.get((pod.namespace, pod.reservation), [])
        standing = [uid for uid in uids if uid in self._reservations]
        uid = next((uid for uid in standing if self._reservations[uid].claims.get(pod.token) == pod.units), None)
        if uid is None:
            if not any(pod.token in self._ever[uid] for uid in uids if uid not in standing):
                yield "I1", f"let in on {pod.token or 'no claim'}, which does not stand in {pod.reservation or 'any'}"
            return
        window = self._promised[uid]
        # The API server notes when it began to work on a write; a create may have begun long before it was decided.
        since = pod.written if patched else pod.arrived
        if since < window.start:
            yield "I3", f"let in at {since:%H:%M:%S.%f}, its window opens at {window.start:%H:%M:%S}"
        if pod.written >= window.end + LATE:
            yield "I1", f"let in at {pod.written:%H:%M:%S}, its window ended at {window.end:%H:%M:%S}"
        elif pod.written >= window.end:
            self.notes.append(
                f"let in within {(pod.written - window.end).seconds + 1} s after the window's end, claimed before"
            )

    def _ended(self, pod: PodSeen) -> Iterable[tuple[str, str]]:
        for uid in self._named.get((pod.namespace, pod.reservation), []):
            window = self._promised.get(uid)
            if window and pod.token in self._ever[uid] and pod.arrived < window.end:
                yield "I8", f"ended by somebody at {pod.arrived:%H:%M:%S}, guaranteed until {window.end:%H:%M:%S}"


def _forgery(old: PodSeen | None, new: PodSeen) -> Iterable[tuple[str, str]]:
    if new.let_in or new.node:
        yield "I5", f"an attacker's pod is let in, node: {new.node or 'none'}"
    elif old is None:
        yield STORED, "an attacker's pod is stored, though held"
