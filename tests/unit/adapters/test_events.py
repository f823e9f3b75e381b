"""The recorder: best effort, bounded, and never in the way."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from common.adapters.answers import Answer
from common.adapters.events import EventRecorder, Pace, Regarding
from common.domain.errors import ApiError, NotFound, OutcomeUnknown, Throttled
from tests.support.builders import a_class, a_pod, a_reservation
from tests.support.clock import FakeClock
from tests.support.waiting import eventually


@dataclass
class Sent:
    """Stands for `Kube`, and keeps what it is sent."""

    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    errors: list[ApiError] = field(default_factory=list)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = "",
        timeout_s: float,
    ) -> Answer:
        self.requests.append((method, path, body))
        await asyncio.sleep(0)
        if self.errors:
            raise self.errors.pop(0)
        return Answer(201, b"{}")

    @property
    def notes(self) -> list[str]:
        return [body["note"] for method, _, body in self.requests if method == "POST"]


@dataclass
class Recording:
    sent: Sent
    clock: FakeClock
    recorder: EventRecorder

    async def sends(self, count: int) -> None:
        await eventually(lambda: len(self.sent.requests) >= count, f"{count} requests")


@asynccontextmanager
async def recording(pace: Pace | None = None) -> AsyncIterator[Recording]:
    sent, clock = Sent(), FakeClock()
    recorder = EventRecorder(sent, clock, "reconciler-0", clock.monotonic, pace or Pace(), sleep=clock.sleep)
    task = asyncio.create_task(recorder.run())
    try:
        yield Recording(sent, clock, recorder)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_what_an_event_says() -> None:
    async with recording() as r:
        r.recorder.pod(a_pod(), "NoReservation", "AdmitPod", "book one", "Warning")
        await r.sends(1)
    method, path, body = r.sent.requests[0]
    assert (method, path) == ("POST", "/apis/events.k8s.io/v1/namespaces/alice/events")
    name = body["metadata"].pop("name")
    assert name.startswith("trainer-0.")
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "alice"},
        "eventTime": "2026-12-01T12:00:00.000000Z",
        "reportingController": "gpures.dev/reconciler",
        "reportingInstance": "reconciler-0",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "trainer-0",
            "namespace": "alice",
            "uid": "uid-alice-trainer-0",
        },
        "reason": "NoReservation",
        "action": "AdmitPod",
        "note": "book one",
        "type": "Warning",
    }


@pytest.mark.parametrize("uid", ["", "uid-train"])
async def test_an_event_about_an_owner_names_what_is_known_of_it(uid: str) -> None:
    async with recording() as r:
        for namespace in ("alice", "bob"):
            pod = a_pod(namespace=namespace, owner="Deployment/web", owner_api="apps/v1", owner_uid=uid)
            r.recorder.record(Regarding.owner_of(pod), "NoReservation", "AdmitPod", "book one")
        await r.sends(2)
    named = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", **({"uid": uid} if uid else {})}
    assert [body["regarding"] for _, _, body in r.sent.requests] == [
        {**named, "namespace": "alice"},
        {**named, "namespace": "bob"},
    ]


async def test_objects_of_the_cluster_are_told_about_in_default() -> None:
    async with recording() as r:
        r.recorder.record(Regarding.gpu_class(a_class()), "Short", "CountNodes", "2 missing")
        r.recorder.reservation(a_reservation(), "Ended", "EndReservation", "over")
        await r.sends(2)
    (_, first, body), (_, second, _) = r.sent.requests
    assert first.endswith("/namespaces/default/events")
    assert "namespace" not in body["regarding"]
    assert second.endswith("/namespaces/alice/events")


async def test_the_same_is_told_once_and_then_becomes_a_series() -> None:
    async with recording() as r:
        for _ in range(5):
            r.recorder.pod(a_pod(), "NoReservation", "AdmitPod", "book one")
        r.recorder.pod(a_pod(), "NoReservation", "AdmitPod", "another sentence")
        await r.sends(2)
        assert r.sent.notes == ["book one", "another sentence"]
        r.clock.advance(timedelta(minutes=31))
        r.recorder.pod(a_pod(), "NoReservation", "AdmitPod", "book one")
        await r.sends(3)
        method, path, body = r.sent.requests[2]
        assert (method, path.rpartition("/")[2]) == ("PATCH", r.sent.requests[0][2]["metadata"]["name"])
        assert body == {"series": {"count": 6, "lastObservedTime": "2026-12-01T12:31:00.000000Z"}}


async def test_a_series_whose_event_has_expired_begins_anew() -> None:
    async with recording() as r:
        r.recorder.pod(a_pod(), "NoReservation", "AdmitPod", "book one")
        await r.sends(1)
        r.clock.advance(timedelta(hours=2))
        r.sent.errors.append(NotFound(404, "expired"))
        r.recorder.pod(a_pod(), "NoReservation", "AdmitPod", "book one")
        await r.sends(3)
        assert [method for method, _, _ in r.sent.requests] == ["POST", "PATCH", "POST"]


async def test_more_than_fits_drops_the_oldest() -> None:
    async with recording(Pace(waiting=3)) as r:
        for index in range(10):
            r.recorder.pod(a_pod(f"p{index}"), "NoReservation", "AdmitPod", f"note {index}")
        await r.sends(3)
        assert r.sent.notes == ["note 7", "note 8", "note 9"]
        r.recorder.pod(a_pod("p0"), "NoReservation", "AdmitPod", "note 0")
        await r.sends(4)
        assert r.sent.notes[-1] == "note 0", "what was dropped was not told: it is no repetition"


async def test_after_a_burst_the_rate_is_kept() -> None:
    async with recording(Pace(per_second=1, burst=2)) as r:
        for index in range(5):
            r.recorder.pod(a_pod(f"p{index}"), "NoReservation", "AdmitPod", "x")
        await r.sends(2)
        for expected in (3, 4, 5):
            assert len(r.sent.requests) == expected - 1
            r.clock.advance(1.001)
            await r.sends(expected)


@pytest.mark.parametrize("error", [OutcomeUnknown(500, "no"), Throttled(429, "later", 1.0), NotFound(404, "namespace")])
async def test_what_fails_is_dropped_and_may_be_told_again(error: ApiError) -> None:
    async with recording() as r:
        r.sent.errors.append(error)
        r.recorder.pod(a_pod(), "NoReservation", "AdmitPod", "book one")
        await r.sends(1)
        await asyncio.sleep(0)
        r.clock.advance(2)
        await asyncio.sleep(0)
        r.recorder.pod(a_pod(), "NoReservation", "AdmitPod", "book one")
        await r.sends(2)
        assert [method for method, _, _ in r.sent.requests] == ["POST", "POST"]


async def test_notes_fit_into_the_limit_whatever_the_characters() -> None:
    async with recording() as r:
        r.recorder.pod(a_pod(), "NoReservation", "AdmitPod", "ü" * 1000)
        r.recorder.pod(a_pod(), "NoReservation", "AdmitPod", "x" * 1024)
        await r.sends(2)
    clipped, whole = r.sent.notes
    assert len(clipped.encode()) <= 1024
    assert clipped.endswith("ü…")
    assert whole == "x" * 1024
