"""Every write of the reconciler, one method each, with the precondition that makes a second writer harmless (R8).

Each write asks the fence first (does this process still lead, by the monotonic clock?) and hands the stored object that
the API server returned to the informers' stores, so that the next decision has seen it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import structlog

from common.adapters import paths
from common.adapters.kube import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE, Answer, Kube
from common.adapters.metrics import WRITE_SECONDS, WRITES
from common.adapters.watching import decode_page
from common.adapters.wire.gpu_class import decode_class
from common.adapters.wire.pod import decode_pod
from common.adapters.wire.reservation import decode_reservation
from common.domain.claim_patch import claim_operations, same_uid
from common.domain.errors import ApiError, MalformedObject, NotFound
from common.domain.gpu_class import GpuClass
from common.domain.pod import PodView
from common.domain.reservation import TERMINAL, ObjectKey, Reservation, Token

log = structlog.get_logger(__name__)

Operations = list[dict[str, Any]]

_LIVE = ",".join(f"status.phase!={phase}" for phase in sorted(TERMINAL))

TIMEOUT_S = 10.0
PAGE = 500
_NAME: Final = re.compile(r"[0-9a-z][0-9a-z.-]{0,252}")
"""What an object can be called, and nothing that means something else in a path: `.` is the whole collection there."""


class NotLeading(ApiError):
    """The lease ran out before the write was sent: nothing was written."""

    def __init__(self) -> None:
        super().__init__(0, "this process does not lead any more")


class Writes:
    def __init__(
        self,
        kube: Kube,
        leads: Callable[[], bool],
        seen_pod: Callable[[PodView], object],
        seen_reservation: Callable[[Reservation], object],
        seen_class: Callable[[GpuClass], object],
    ) -> None:
        self._kube = kube
        self._leads = leads
        self._seen_pod = seen_pod
        self._seen_reservation = seen_reservation
        self._seen_class = seen_class

    # Reservations

    async def claim(self, reservation: Reservation, claims: Mapping[Token, int]) -> Reservation:
        """Judged by the API server (R1): Refused when the sum would exceed the promise, or the uid is another."""
        operations = claim_operations(reservation.uid, claims)
        return await self._reservation("claim", reservation.key, operations, JSON_PATCH)

    async def drop_claims(
        self, reservation: Reservation, tokens: Sequence[Token], more: Operations | None = None
    ) -> Reservation:
        """Each token is tested before it is removed; `more` goes into the same patch."""
        operations: Operations = [same_uid(reservation.uid)]
        for token in tokens:
            path = f"/status/claims/{token}"
            operations += [
                {"op": "test", "path": path, "value": reservation.claims[token]},
                {"op": "remove", "path": path},
            ]
        return await self._reservation("drop_claims", reservation.key, operations + (more or []), JSON_PATCH)

    async def change_phase(
        self,
        reservation: Reservation,
        status: Mapping[str, Any],
        *,
        gone: Sequence[str] = (),
        promised: Mapping[str, object] | None = None,
    ) -> Reservation:
        """Tests uid, old phase and the promise that this follows from; `gone` are status fields to take away."""
        operations: Operations = [
            same_uid(reservation.uid),
            {"op": "test", "path": "/status/phase", "value": str(reservation.phase)},
        ]
        if promised is not None:
            operations.append({"op": "test", "path": "/status/granted", "value": promised})
        operations += [{"op": "remove", "path": f"/status/{field}"} for field in gone]
        operations += [{"op": "add", "path": f"/status/{field}", "value": value} for field, value in status.items()]
        return await self._reservation("phase", reservation.key, operations, JSON_PATCH)

    async def status_at(self, reservation: Reservation, status: Mapping[str, Any]) -> Reservation:
        """Merge into the status of exactly this version: Conflict when anybody wrote since."""
        body = {"metadata": {"resourceVersion": reservation.version}, "status": status}
        return await self._reservation("status", reservation.key, body, MERGE_PATCH)

    async def summary(self, reservation: Reservation, operations: Operations) -> Reservation:
        """Fields that follow from pods and nodes; only this object, whatever else was written to it meanwhile."""
        return await self._reservation("summary", reservation.key, [same_uid(reservation.uid), *operations], JSON_PATCH)

    async def remove_reservation(self, reservation: Reservation) -> None:
        body = _exactly(reservation.uid, reservation.version)
        await self._send("remove", "DELETE", paths.reservation(reservation.key), body)

    async def read_reservation(self, key: ObjectKey) -> Reservation:
        answer = await self._kube.request("GET", paths.reservation(key), timeout_s=TIMEOUT_S)
        return self._note_reservation(answer)

    async def list_live(self) -> list[Reservation]:
        """Quorum list of everything that is not over; what cannot be read is said and left out."""
        return _readable(await self._list(paths.reservations(), {"fieldSelector": _LIVE}))

    async def list_class(self, class_name: str) -> list[Reservation]:
        """Quorum list of a class's reservations that are not over, in pages; what cannot be read holds nothing."""
        selector = f"spec.gpuClass={class_name},{_LIVE}"
        return _readable(await self._list(paths.reservations(), {"fieldSelector": selector}))

    async def list_reservations(self, namespace: str) -> list[Reservation]:
        """Quorum list of a namespace, in pages; raises MalformedObject: what cannot be read may hold anything."""
        return [decode_reservation(item) for item in await self._list(paths.reservations(namespace), {})]

    # Pods

    async def delete_pod(self, pod: PodView) -> None:
        """Exactly this version of it: Conflict when anybody wrote since, the scheduler's binding first of all."""
        await self._send("delete_pod", "DELETE", paths.pod(pod.key), _exactly(pod.uid, pod.version))

    async def open_pod(self, pod: PodView, operations: Operations) -> PodView:
        """ONE patch under the pod's resourceVersion: with `replace` a miss is a clean 409 (with `test` it is a 422)."""
        guarded = [{"op": "replace", "path": "/metadata/resourceVersion", "value": pod.version}, *operations]
        return self._note_pod(await self._send("open", "PATCH", paths.pod(pod.key), guarded, JSON_PATCH))

    async def tell_pod(self, pod: PodView, body: Mapping[str, Any]) -> PodView:
        """Annotations and condition in one strategic merge of the status subresource; a plain one wipes the others."""
        guarded = {**body, "metadata": {**body.get("metadata", {}), "uid": pod.uid}}
        answer = await self._send("tell", "PATCH", paths.pod(pod.key, "status"), guarded, STRATEGIC_MERGE)
        return self._note_pod(answer)

    async def withdraw_pod(self, pod: PodView, annotations: Mapping[str, str | None]) -> PodView:
        """Annotations of exactly this version of a pod: Conflict when anybody wrote since."""
        body = {"metadata": {"uid": pod.uid, "resourceVersion": pod.version, "annotations": annotations}}
        return self._note_pod(await self._send("withdraw", "PATCH", paths.pod(pod.key), body, MERGE_PATCH))

    async def list_pods(self, namespace: str) -> list[PodView]:
        """Quorum list of a namespace, in pages."""
        return [decode_pod(item) for item in await self._list(paths.pods(namespace), {})]

    # Classes

    async def read_class(self, name: str) -> GpuClass:
        """`name` may be anything that a tenant asked for."""
        if not _NAME.fullmatch(name):
            raise NotFound(404, "no object can be called that")
        answer = await self._kube.request("GET", paths.classes(name), timeout_s=TIMEOUT_S)
        gpu_class = decode_class(answer.body)
        self._seen_class(gpu_class)
        return gpu_class

    async def list_classes(self) -> list[GpuClass]:
        """Quorum list."""
        return [decode_class(item) for item in await self._list(paths.classes(), {})]

    async def class_status(self, gpu_class: GpuClass, operations: Operations) -> GpuClass:
        guarded = [same_uid(gpu_class.uid), *operations]
        answer = await self._send("class", "PATCH", paths.classes(gpu_class.name, "status"), guarded, JSON_PATCH)
        written = decode_class(answer.body)
        self._seen_class(written)
        return written

    # Within

    async def _reservation(self, action: str, key: ObjectKey, body: object, content_type: str) -> Reservation:
        answer = await self._send(action, "PATCH", paths.reservation(key, "status"), body, content_type)
        return self._note_reservation(answer)

    async def _send(
        self, action: str, method: str, path: str, body: object, content_type: str = "application/json"
    ) -> Answer:
        if not self._leads():
            raise NotLeading
        try:
            with WRITE_SECONDS.labels(action).time():
                answer = await self._kube.request(
                    method, path, body=body, content_type=content_type, timeout_s=TIMEOUT_S
                )
        except ApiError as error:
            WRITES.labels(action, type(error).__name__).inc()
            raise
        WRITES.labels(action, "stored").inc()
        return answer

    async def _list(self, path: str, query: dict[str, str]) -> list[bytes]:
        items: list[bytes] = []
        token = ""
        while True:
            page = {**query, "limit": str(PAGE), **({"continue": token} if token else {})}
            answer = await self._kube.request("GET", path, query=page, timeout_s=TIMEOUT_S)
            found = decode_page(answer.body)
            items += [bytes(item) for item in found.items or ()]
            token = found.metadata.continue_
            if not token:
                return items

    def _note_reservation(self, answer: Answer) -> Reservation:
        reservation = decode_reservation(answer.body)
        self._seen_reservation(reservation)
        return reservation

    def _note_pod(self, answer: Answer) -> PodView:
        pod = decode_pod(answer.body)
        self._seen_pod(pod)
        return pod


def _exactly(uid: str, version: str) -> dict[str, Any]:
    preconditions = {"uid": uid, "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}


def _readable(items: Sequence[bytes]) -> list[Reservation]:
    readable: list[Reservation] = []
    for item in items:
        try:
            readable.append(decode_reservation(item))
        except MalformedObject as error:
            log.warning("reservation.unreadable", why=str(error))
    return readable
