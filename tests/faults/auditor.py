"""An auditor of its own: watches pods and reservations as an administrator, and shares no code with the product."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Final, Self

import httpx

from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.polling import until
from tests.faults import facts
from tests.faults.facts import PodSeen, ReservationSeen, Seen
from tests.faults.judge import Judge, Violation
from tests.faults.timing import lasts, monotonic, wall

WATCHED: Final = ("pods", "gpureservations.gpures.dev")
TURN_S: Final = 5
CATCH_UP_S: Final = 60.0
GONE: Final = 410
SETTLING_S: Final = 3.0


class _ForgottenError(Exception):
    """The API server has forgotten the version that the watch had reached."""


class Auditor:
    """Context manager. `live` is what the watches say now; `judge` looks at every version up to now."""

    def __init__(self, admin: ApiClient, gpu_class: str, capacity: int, nodes: Iterable[str]) -> None:
        self._admin = admin
        self.rules = Judge(gpu_class, capacity)
        self.nodes = frozenset(nodes)
        self.gaps = 0
        self._lock = threading.Lock()
        self._seen: list[Seen] = []
        self._live: dict[str, Seen] = {}
        self._running: dict[str, float] = {}
        self._held: dict[str, float] = {}
        self._entered: dict[str, float] = {}
        self._ending: set[str] = set()
        self._versions: dict[str, str] = {}
        self._anew: set[str] = set()
        """Watches that have to begin with a list, for what they saw is no more."""
        self._restored = False
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._follow, args=(key,), name=f"audit {key}") for key in WATCHED]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.daemon = True
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(TURN_S + 2.0)

    # What is there now

    def pods(self, namespace: str) -> Sequence[PodSeen]:
        with self._lock:
            return [seen for seen in self._live.values() if isinstance(seen, PodSeen) and seen.namespace == namespace]

    def running_for(self, pod: PodSeen) -> float:
        since = self._running.get(pod.uid)
        return 0.0 if since is None else monotonic() - since

    def entered_at(self, namespace: str, name: str) -> float | None:
        """When the watch said that the living pod of this name was let in, by the monotonic clock."""
        found = [pod for pod in self.pods(namespace) if pod.name == name]
        return self._entered.get(found[0].uid) if found else None

    def releasable(self, longer_than_s: float = SETTLING_S) -> Sequence[str]:
        """Pods held for longer than that though an open window of theirs has had room for as long."""
        with self._lock:
            pods = [seen for seen in self._live.values() if isinstance(seen, PodSeen) and seen.gated]
            reservations = [seen for seen in self._live.values() if isinstance(seen, ReservationSeen)]
        now, now_s = wall(), monotonic()
        return [
            f"{pod.namespace}/{pod.name} by {reservation.name}"
            for pod in pods
            for reservation in reservations
            if now_s - self._held.get(pod.uid, now_s) > longer_than_s
            and now_s - reservation.arrived_s > longer_than_s
            and not pod.leaving
            and _has_room(reservation, pod)
            and reservation.promise
            and (now - reservation.promise.start).total_seconds() > longer_than_s
            and now < reservation.promise.end
        ]

    def ends(self, pods: Iterable[PodSeen]) -> None:
        """The test itself is about to end these."""
        with self._lock:
            self._ending.update(pod.uid for pod in pods)

    # What was there at any time

    def judge(self) -> Sequence[Violation]:
        """What was wrong since the last call; returns once every version that is stored now has been looked at."""
        until(self._caught_up, CATCH_UP_S, "the auditor has caught up", retry_on=(ApiError, httpx.HTTPError))
        with self._lock:
            news, self._seen = sorted(self._seen, key=lambda seen: seen.version), []
            ending = set(self._ending)
        before = len(self.rules.violations)
        for seen in news:
            self.rules.take(seen, ending, self.nodes)
        return self.rules.violations[before:]

    def starts_anew(self) -> None:
        """After a restored backup nothing that was seen is true any more."""
        with self._lock:
            self._seen.clear()
            self._live.clear()
            self._anew.update(WATCHED)
            self._restored = True
        self.rules.forget()

    def _caught_up(self) -> bool:
        stored = [item["metadata"] for key in WATCHED for item in self._admin.items(key)]
        with self._lock:
            known = {uid: seen.version for uid, seen in self._live.items()}
        return all(known.get(meta["uid"], 0) >= int(meta["resourceVersion"]) for meta in stored)

    # The watches

    def _follow(self, key: str) -> None:
        version = ""
        while not self._stopping.is_set():
            if key in self._anew:
                self._anew.discard(key)
                version = ""
            try:
                version = self._watch(key, version or self._list(key))
            except _ForgottenError:
                self.gaps += 1
                version = ""
            except (ApiError, httpx.HTTPError, ValueError) as error:
                if isinstance(error, ApiError) and error.code == GONE:
                    version = ""
                version = self._reached(key) if version else ""
                lasts(0.1)

    def _list(self, key: str) -> str:
        found = self._admin.list(key)
        there = {item["metadata"]["uid"] for item in found["items"]}
        for item in found["items"]:
            self._take(key, "ADDED", item)
        version = str(found["metadata"]["resourceVersion"])
        kind = PodSeen if key == "pods" else ReservationSeen
        with self._lock:
            lost = [seen for uid, seen in self._live.items() if isinstance(seen, kind) and uid not in there]
            for seen in lost:
                self._live.pop(seen.uid)
                self._seen.append(replace(seen, gone=True, version=int(version), arrived=wall(), arrived_s=monotonic()))
            if self._restored:
                # One version of each says nothing about how it came to be.
                self.rules.adopt(seen for seen in self._live.values() if isinstance(seen, PodSeen) and seen.let_in)
        self._versions[key] = version
        return version

    def _watch(self, key: str, version: str) -> str:
        self._versions[key] = version
        with self._admin.watch(key, resource_version=version, timeout_s=TURN_S) as lines:
            for line in lines:
                if line.type == "ERROR":
                    raise _ForgottenError
                self._take(key, line.type, line.object)
                self._versions[key] = str(line.object["metadata"]["resourceVersion"])
                if self._stopping.is_set() or key in self._anew:
                    break
        return self._versions[key]

    def _reached(self, key: str) -> str:
        return self._versions.get(key, "")

    def _take(self, key: str, kind: str, raw: facts.Raw) -> None:
        seen = facts.read(kind, raw, wall(), monotonic())
        with self._lock:
            known = self._live.get(seen.uid)
            if known is not None and known.version >= seen.version:
                return
            self._seen.append(seen)
            if seen.gone:
                self._live.pop(seen.uid, None)
                return
            self._live[seen.uid] = seen
            if isinstance(seen, PodSeen):
                self._note(seen)

    def _note(self, pod: PodSeen) -> None:
        if pod.gated:
            self._held.setdefault(pod.uid, pod.arrived_s)
        if pod.let_in:
            self._entered.setdefault(pod.uid, pod.arrived_s)
        if pod.phase == "Running":
            self._running.setdefault(pod.uid, pod.arrived_s)


def _has_room(reservation: ReservationSeen, pod: PodSeen) -> bool:
    if reservation.namespace != pod.namespace or reservation.phase != "Active" or reservation.promise is None:
        return False
    if pod.wants not in ("", reservation.name):
        return False
    return reservation.promise.units - sum(reservation.claims.values()) >= pod.units > 0
