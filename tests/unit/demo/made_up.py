"""A made-up run of the story in which every claim holds; tests spoil one thing at a time."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from common.domain import keys
from tests.controlplane.audit import AuditEvent
from tests.controlplane.discovery import JsonObject
from tests.controlplane.nodes import GPU
from tests.controlplane.recording import Change
from tests.demo.evidence import Evidence, Record
from tests.demo.proofs import RECONCILER, WEBHOOK

START = datetime(2026, 12, 1, 9, 0, tzinfo=UTC)
OPENS = START + timedelta(seconds=20)
SCHEDULER, KUBELET = "system:kube-scheduler", "kwok"


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def stamp(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def pod(
    key: str, *, held: str = "", token: str = "", reservation: str = "", node: str = "", phase: str = ""
) -> JsonObject:
    """Held with a reason, or let in with a token, or neither."""
    namespace, _, name = key.partition("/")
    notes = {keys.HELD: f"{held}: a sentence"} if held else {}
    notes |= {keys.CLAIM: token, keys.BOOKING_REFERENCE: reservation} if token else {}
    spec: JsonObject = {"containers": [{"resources": {"limits": {GPU: "1"}}}]}
    if held:
        spec["schedulingGates"] = [{"name": keys.GATE}]
    if token:
        spec["tolerations"] = [{"key": keys.TAINT, "value": "h100"}]
    if node:
        spec["nodeName"] = node
    conditions = [{"type": keys.HELD_CONDITION}] if held else []
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": {keys.CLASS_LABEL: "h100"}, "annotations": notes},
        "spec": spec,
        "status": {"phase": phase or "Pending", "conditions": conditions},
    }


def reservation(
    key: str, claims: dict[str, int], *, units: int = 2, phase: str = "Active", message: str = ""
) -> JsonObject:
    namespace, _, name = key.partition("/")
    status: JsonObject = {"phase": phase, "claims": claims, "message": message}
    if phase in ("Confirmed", "Active"):
        status["granted"] = {"start": stamp(OPENS), "end": stamp(at(600)), "units": units}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"gpuClass": "h100"}, "status": status}


@dataclass
class MadeUp:
    """Collects what the API server would have logged and sent."""

    record: Record = field(default_factory=Record)
    audit: list[AuditEvent] = field(default_factory=list)
    changes: dict[str, list[Change]] = field(default_factory=dict)
    ids: itertools.count[int] = field(default_factory=itertools.count)

    def seen(self, kind: str, obj: JsonObject, when: float = 0.0) -> None:
        self.changes.setdefault(kind, []).append(Change("ADDED", copy.deepcopy(obj), when))

    def wrote(
        self,
        key: str,
        when: float,
        by: str,
        response: JsonObject | None = None,
        *,
        verb: str = "patch",
        resource: str = "pods",
        subresource: str = "",
        code: int = 200,
    ) -> None:
        namespace, _, name = key.partition("/")
        self.audit.append(
            AuditEvent(
                id=str(next(self.ids)),
                stage="ResponseComplete",
                verb=verb,
                group="",
                resource=resource,
                subresource=subresource,
                namespace=namespace,
                name=name,
                user=by,
                impersonated="",
                user_agent="",
                code=code,
                uri="/",
                received=at(when),
                completed=at(when) + timedelta(milliseconds=5),
                request=None,
                response=response,
            )
        )

    def evidence(self) -> Evidence:
        def of(kind: str) -> Sequence[Change]:
            return self.changes.get(kind, [])

        return Evidence(
            record=self.record,
            pods=of("pods"),
            reservations=of("reservations"),
            leases=of("leases"),
            nodes=of("nodes"),
            events=of("events"),
            audit=tuple(self.audit),
        )

    def let_in_at_create(self, key: str, token: str, when: float) -> None:
        inside = pod(key, token=token, reservation="sprint")
        self.wrote(key, when, key.partition("/")[0], inside, verb="create")
        self._placed(key, token, when + 0.01)

    def let_in_later(self, key: str, token: str, reason: str, created: float, opened: float) -> None:
        outside = pod(key, held=reason)
        self.seen("pods", outside)
        self.wrote(key, created, key.partition("/")[0], outside, verb="create")
        self.wrote(key, opened, RECONCILER, pod(key, token=token, reservation="sprint"))
        self._placed(key, token, opened + 0.01)

    def _placed(self, key: str, token: str, when: float) -> None:
        self.wrote(key, when, SCHEDULER, verb="create", subresource="binding")
        self.seen("pods", pod(key, token=token, reservation="sprint", node="gpu-a", phase="Running"))


def whole() -> MadeUp:
    """Every case once, in the user's namespace `alice` with one reservation `sprint`."""
    run = MadeUp()
    run.seen("nodes", {"metadata": {"name": "gpu-a", "labels": {keys.CLASS_LABEL: "h100"}}})
    for tokens in ({}, {"t-early": 1}, {"t-early": 1, "t-fast": 1}, {"t-fast": 1, "t-next": 1}, {"t-dark": 1}):
        run.seen("reservations", reservation("alice/sprint", tokens))
    claimed = reservation("alice/sprint", {"t-early": 1})
    run.wrote("alice/sprint", 20.01, WEBHOOK, claimed, resource="gpureservations", subresource="status")
    run.let_in_later("alice/early", "t-early", "WaitingForReservation", 1, 20.02)
    involved = {"namespace": "alice", "name": "early"}
    run.seen("events", {"metadata": {}, "involvedObject": involved, "reason": "WaitingForReservation"})
    run.let_in_at_create("alice/fast", "t-fast", 30)
    run.wrote("alice/fast", 39.9, KUBELET, pod("alice/fast", token="t-fast", phase="Succeeded"), subresource="status")
    run.let_in_later("alice/next", "t-next", "ReservationFull", 35, 40)
    run.record.finished_then.append(("alice/fast", "alice/next"))
    run.let_in_later("alice/dark", "t-dark", "Undecided", 51, 51.1)
    run.record.outage = (at(50), at(55))
    run.record.denied, run.record.slot_warnings = "alice/huge", ()
    run.seen("reservations", reservation("alice/huge", {}, phase="Denied", message="no; first slot: 10:00 UTC"))
    run.record.typo = ('UnknownGpuClass: no class "hl00"; did you mean "h100"?',)
    run.record.forged.append("alice/intruder")
    run.wrote("alice/intruder", 52, "alice", verb="create", code=403)
    run.record.killed_leader, run.record.killed_at, run.record.killed_wall = "reconciler-0", 100.0, at(45)
    run.seen("leases", {"metadata": {"name": "l"}, "spec": {"holderIdentity": "reconciler-1_ab"}}, 104.0)
    return run
