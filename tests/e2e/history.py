"""The auditor: replays every stored version of a class's reservations and pods, in the API server's order.

What "never at any moment" means is written here a second time, on raw JSON: it shares no code with the product.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime
from types import TracebackType
from typing import Self

from tests.controlplane.client import ApiClient
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.controlplane.recording import Change, Recorder

CLAIM, NAME, GATE, TAINT = "gpures.dev/claim", "gpures.dev/reservation", "gpures.dev/hold", "gpu-class-reservation"
LIVE_PHASES = frozenset({"Confirmed", "Active"})
ALLOWED: Mapping[str, frozenset[str]] = {
    "": frozenset({"Pending"}),
    "Pending": frozenset({"Confirming", "Denied", "Canceled"}),
    "Confirming": frozenset({"Confirmed", "Denied", "Canceled"}),
    "Confirmed": frozenset({"Active", "Ended", "Canceled"}),
    "Active": frozenset({"Ended", "Canceled"}),
}
DEADLINE_S = 20.0


class History:
    """Records while the block runs; `check` says what was ever wrong with a class of so many units."""

    def __init__(self, admin: ApiClient, gpu_class: str, capacity: int) -> None:
        self._admin = admin
        self._gpu_class = gpu_class
        self._capacity = capacity
        self._reservations = Recorder(admin, "gpureservations.gpures.dev")
        self._pods = Recorder(admin, "pods")

    def __enter__(self) -> Self:
        self._stack = ExitStack()
        self._stack.enter_context(self._reservations)
        self._stack.enter_context(self._pods)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Judge once more, at the very end, unless the test has failed already."""
        try:
            if error is None:
                self.check()
        finally:
            self._stack.__exit__(kind, error, trace)

    def check(self) -> None:
        replay = Replay(self._capacity)
        for change in self.changes():
            replay.take(change)
        assert not replay.faults, "\n".join(replay.faults)

    def changes(self) -> Sequence[Change]:
        """Everything up to now, by resourceVersion: one etcd counts all kinds together."""
        until(self._caught_up, DEADLINE_S, "the recording has caught up")
        both = [
            *(
                change
                for change in self._reservations.changes()
                if change.object["spec"]["gpuClass"] == self._gpu_class
            ),
            *(change for change in self._pods.changes() if _label(change.object, "gpu-class") == self._gpu_class),
        ]
        return sorted(both, key=lambda change: _version(change.object))

    def _caught_up(self) -> bool:
        return all(
            _version(recorder.last(item)) >= _version(item)
            for recorder, items in (
                (_Latest(self._reservations), self._admin.items("gpureservations.gpures.dev")),
                (_Latest(self._pods), self._admin.items("pods")),
            )
            for item in items
        )


class Replay:
    """The state at one version after another, and the faults found on the way."""

    def __init__(self, capacity: int) -> None:
        self.faults: list[str] = []
        self._capacity = capacity
        self._reservations: dict[str, JsonObject] = {}
        self._pods: dict[str, JsonObject] = {}
        self._ever: dict[str, set[str]] = {}
        """Tokens that ever stood in a reservation, by its uid; it stays when the reservation is deleted."""
        self._named: dict[tuple[str, str], list[str]] = {}
        self._confirmed: set[str] = set()

    def take(self, change: Change) -> None:
        judge: Callable[[JsonObject | None, JsonObject], Iterable[str]]
        if change.object["kind"] == "Pod":
            known, judge = self._pods, self._pod
        else:
            known, judge = self._reservations, self._reservation
        uid = change.object["metadata"]["uid"]
        old = known.get(uid)
        if change.type == "DELETED":
            known.pop(uid, None)
            return
        known[uid] = change.object
        meta = change.object["metadata"]
        where = f"{change.object['kind']} {meta['namespace']}/{meta['name']} at version {meta['resourceVersion']}"
        self.faults += [f"{where}: {fault}" for fault in judge(old, change.object)]

    # Reservations

    def _reservation(self, old: JsonObject | None, new: JsonObject) -> Iterable[str]:
        uid, meta = new["metadata"]["uid"], new["metadata"]
        if old is None:
            self._named.setdefault((meta["namespace"], meta["name"]), []).append(uid)
        before, after = _claims(old), _claims(new)
        self._ever.setdefault(uid, set()).update(after)
        granted = _granted_units(new)
        grown = any(units > before.get(token, 0) for token, units in after.items())
        if grown and sum(after.values()) > granted:
            yield f"{sum(after.values())} units claimed of {granted}"
        yield from self._dropped(meta["name"], before.keys() - after.keys())
        yield from self._phase(uid, _phase(old), _phase(new))
        yield from self._over_capacity()
        yield from self._over_bound(uid)

    def _dropped(self, name: str, tokens: Iterable[str]) -> Iterable[str]:
        """Of a pod that lives; one that was let in elsewhere has no use for its token here."""
        carried = {
            _token(pod): pod
            for pod in self._pods.values()
            if _lives(pod) and _token(pod) and _label(pod, NAME) in ("", name)
        }
        for token in tokens:
            if token in carried:
                yield f"claim {token} dropped while {carried[token]['metadata']['name']} lives"

    def _phase(self, uid: str, old: str, new: str) -> Iterable[str]:
        if new == old:
            return
        if new not in ALLOWED.get(old, ()) and (old or new != "Pending"):
            yield f"{old or 'nothing'} became {new}"
        if new == "Confirmed":
            if uid in self._confirmed:
                yield "confirmed a second time"
            self._confirmed.add(uid)

    def _over_capacity(self) -> Iterable[str]:
        """A claim beyond the promise (of a reservation that shrank) keeps its units as well."""
        kept = [
            (_instant(promise["start"]), _instant(promise["end"]), max(promise["units"], sum(_claims(each).values())))
            for each in self._reservations.values()
            if _phase(each) in LIVE_PHASES and (promise := each["status"].get("granted"))
        ]
        for since, _, _ in kept:
            units = sum(units for start, end, units in kept if start <= since < end)
            if units > self._capacity:
                yield f"{units} units promised from {since} on, {self._capacity} are there"

    # Pods

    def _pod(self, old: JsonObject | None, new: JsonObject) -> Iterable[str]:
        if _let_in(new) and not (old and _let_in(old)):
            yield from self._entry(new)
        if _node(new) and not (old and _node(old)):
            if not _let_in(new):
                yield "bound without having been let in"
            for uid, tokens in self._ever.items():
                if _token(new) in tokens:
                    yield from self._over_bound(uid)

    def _entry(self, pod: JsonObject) -> Iterable[str]:
        """Let in on a claim that stands, or that stood in a reservation which somebody deleted meanwhile."""
        token, units = _token(pod), _units(pod)
        uids = self._named.get((pod["metadata"]["namespace"], _label(pod, NAME)), [])
        if any(_claims(self._reservations.get(uid)).get(token) == units for uid in uids):
            return
        if not any(token in self._ever[uid] and uid not in self._reservations for uid in uids):
            yield f"let in on {token or 'no claim'}, which does not stand in {_label(pod, NAME) or 'any reservation'}"

    def _over_bound(self, uid: str) -> Iterable[str]:
        """Units of bound pods: within the promise, or within claims that are older than a smaller promise."""
        reservation = self._reservations.get(uid)
        if reservation is None:
            return
        bound = sum(
            _units(pod)
            for pod in self._pods.values()
            if _lives(pod) and _node(pod) and _token(pod) in self._ever.get(uid, ())
        )
        most = max(_granted_units(reservation), sum(_claims(reservation).values()))
        if bound > most:
            yield f"pods with {bound} units bound under {reservation['metadata']['name']}, which has {most}"


class _Latest:
    def __init__(self, recorder: Recorder) -> None:
        self._seen = {change.object["metadata"]["uid"]: change.object for change in recorder.changes()}

    def last(self, item: JsonObject) -> JsonObject:
        return self._seen.get(item["metadata"]["uid"], {"metadata": {"resourceVersion": "0"}})


def _version(stored: JsonObject) -> int:
    return int(stored["metadata"]["resourceVersion"])


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _phase(reservation: JsonObject | None) -> str:
    return str((reservation or {}).get("status", {}).get("phase", ""))


def _claims(reservation: JsonObject | None) -> Mapping[str, int]:
    found: Mapping[str, int] = (reservation or {}).get("status", {}).get("claims", {})
    return found


def _granted_units(reservation: JsonObject) -> int:
    return int(reservation.get("status", {}).get("granted", {}).get("units", 0))


def _label(stored: JsonObject, key: str) -> str:
    return str(stored["metadata"].get("labels", {}).get(key, ""))


def _token(pod: JsonObject) -> str:
    return str(pod["metadata"].get("annotations", {}).get(CLAIM, ""))


def _node(pod: JsonObject) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _lives(pod: JsonObject) -> bool:
    return pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _let_in(pod: JsonObject) -> bool:
    gated = any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates", []))
    return not gated and any(entry.get("key") == TAINT for entry in pod["spec"].get("tolerations", []))


def _units(pod: JsonObject) -> int:
    return sum(int(box["resources"].get("limits", {}).get("nvidia.com/gpu", "0")) for box in pod["spec"]["containers"])
