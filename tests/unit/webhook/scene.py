"""A webhook replica without a network: its index, its committer, and an API server that judges claims as CEL does."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jsonpatch

from common.adapters.wire import PodWire, decode_reservation
from common.domain import texts
from common.domain.errors import ApiError, NotFound, Refused
from common.domain.gpu_class import GpuClass
from common.domain.reservation import OPENABLE, ObjectKey, Reservation, Token
from tests.support.clock import FakeClock
from tests.support.manifests import of_reservation, raw
from webhook.breaker import Breaker
from webhook.claims import Committer, Pace
from webhook.grant import Granter, GrantSettings
from webhook.guard import Guard
from webhook.index import Index, LiveReservations
from webhook.review import Decision, Reader, Request, Response

GATE = {"name": "gpures.dev/hold"}
TOLERATION = {"key": "gpu-class-reservation", "operator": "Equal", "value": "h100", "effect": "NoSchedule"}
HELD_BY_POLICY = "Undecided: held until the reservation service answers; nothing is lost, it starts by itself"


def review(
    obj: Mapping[str, Any] | None,
    *,
    operation: str = "CREATE",
    old: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    user: str = "alice",
    namespace: str = "alice",
) -> bytes:
    return json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "review-1",
                "kind": {"group": "", "version": "v1", "kind": "Pod"},
                "operation": operation,
                "namespace": namespace,
                "userInfo": {"username": user, "groups": ["system:authenticated"]},
                "object": obj,
                "oldObject": old,
                "dryRun": dry_run,
            },
        }
    ).encode()


class FakeClaims:
    """Implements `ports.ClaimsApi`. `failures` are raised one by one; `lands` says if such a request arrived anyway."""

    def __init__(self) -> None:
        self.stored: dict[ObjectKey, Reservation] = {}
        self.patches: list[dict[Token, int]] = []
        self.reads = 0
        self.failures: list[ApiError] = []
        self.lands = False
        self.passing = asyncio.Event()
        self.passing.set()
        self.in_flight = 0
        self.most_in_flight = 0

    async def add_claims(self, key: ObjectKey, uid: str, claims: Mapping[Token, int], timeout_s: float) -> bytes:
        assert timeout_s > 0
        self.patches.append(dict(claims))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.passing.wait()
        finally:
            self.in_flight -= 1
        if self.failures:
            failure = self.failures.pop(0)
            if self.lands:
                self._store(key, claims)
            raise failure
        reservation = self.stored.get(key)
        if reservation is None:
            raise NotFound(404, "not found")
        merged = {**reservation.claims, **claims}
        promised = reservation.granted.units if reservation.granted and reservation.phase in OPENABLE else 0
        if reservation.uid != uid or (sum(merged.values()) > promised and merged != reservation.claims):
            raise Refused(422, "claims need a Confirmed or Active reservation and must fit")
        return self._store(key, claims)

    async def read_reservation(self, key: ObjectKey, timeout_s: float) -> bytes:
        assert timeout_s > 0
        self.reads += 1
        if key not in self.stored:
            raise NotFound(404, "not found")
        return raw(of_reservation(self.stored[key]))

    def _store(self, key: ObjectKey, claims: Mapping[Token, int]) -> bytes:
        old = self.stored[key]
        new = replace(old, claims={**old.claims, **claims}, version=str(int(old.version) + 1))
        self.stored[key] = new
        return raw(of_reservation(new))


class Scene:
    def __init__(self, *classes: GpuClass, claim_within_s: float = 5.0, pace: Pace | None = None) -> None:
        self.clock = FakeClock()
        self.index = Index()
        self.api = FakeClaims()
        self.synced = True
        self.view = LiveReservations(self.index, decode_reservation, self.apply)
        self.breaker = Breaker(self.clock.monotonic)
        self.committer = Committer(self.api, self.view, self.breaker, self.clock.monotonic, pace or Pace(pause_s=0.001))
        self.granter = Granter(
            self.index,
            self.committer,
            self.clock,
            lambda: self.synced,
            texts.Display(),
            GrantSettings(claim_within_s=claim_within_s),
        )
        self.guard = Guard(self.index, lambda: self.synced)
        for gpu_class in classes:
            self.index.class_changed(None, gpu_class)

    def apply(self, reservation: Reservation) -> None:
        """What the informer's store does with an answer."""
        old = self.index.reservation(reservation.key)
        if old is None or int(old.version) < int(reservation.version):
            self.index.reservation_changed(old, reservation)

    def book(self, reservation: Reservation, *, seen: Reservation | None = None) -> Reservation:
        """Stored at the API server; `seen` is what this replica knows of it, if that is something else."""
        self.api.stored[reservation.key] = reservation
        self.apply(seen or reservation)
        return reservation

    async def grant(self, pod: Mapping[str, Any], within_s: float = 4.5, **request: Any) -> Decision:
        return await self.granter.decide(read(PodWire, review(pod, **request)), within_s)

    async def guarded(self, pod: Mapping[str, Any], **request: Any) -> Decision:
        return await self.guard.decide(read(PodWire, review(pod, **request)), 4.5)

    def stored(self, name: str = "sprint", namespace: str = "alice") -> Reservation:
        return self.api.stored[ObjectKey(namespace, name)]


def read(type_: type[Any], body: bytes) -> Request[Any]:
    return Reader(type_).read(body)


def operations(decision: Decision) -> list[dict[str, Any]]:
    patch: list[dict[str, Any]] = json.loads(decision.response.patch) if decision.response.patch else []
    return patch


def after(pod: Mapping[str, Any], decision: Decision) -> dict[str, Any]:
    """The pod as it is stored."""
    stored: dict[str, Any] = jsonpatch.apply_patch(dict(pod), operations(decision))
    return stored


def annotations(pod: Mapping[str, Any]) -> dict[str, str]:
    found: dict[str, str] = pod["metadata"].get("annotations", {})
    return found


def gates(pod: Mapping[str, Any]) -> list[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def is_let_in(pod: Mapping[str, Any]) -> bool:
    return TOLERATION in pod["spec"].get("tolerations", []) and GATE["name"] not in gates(pod)


def warning(response: Response) -> str:
    return response.warnings[0] if response.warnings else ""
