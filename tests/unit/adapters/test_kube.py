"""Requests over real HTTP, and what their answers become."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from structlog.testing import capture_logs

from common.adapters import answers, paths
from common.adapters.access import load
from common.adapters.clock import bounds_of
from common.adapters.kube import JSON_PATCH, Kube, connect
from common.domain.errors import (
    ApiError,
    Conflict,
    Gone,
    NotFound,
    OutcomeUnknown,
    Refused,
    Throttled,
)
from common.domain.reservation import ObjectKey
from common.domain.time import Instant
from tests.support import manifests
from tests.support.fake_api import FakeApi, Fault, serving
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, Refused),
        (401, Refused),
        (403, Refused),
        (404, NotFound),
        (409, Conflict),
        (410, Gone),
        (422, Refused),
        (429, Throttled),
        (500, OutcomeUnknown),
        (504, OutcomeUnknown),
        (302, Refused),
    ],
)
async def test_every_status_has_its_error(status: int, error: type[ApiError]) -> None:
    api = FakeApi()
    api.faults.append(Fault(status, body={"kind": "Status", "message": "why not"}))
    async with serving(api) as kube:
        with pytest.raises(error) as raised:
            await kube.request("PATCH", paths.pods("alice", "a"), body={}, timeout_s=5)
    assert type(raised.value) is error
    assert (raised.value.status, raised.value.message) == (status, "why not")
    assert len(api.requests) == 1


async def test_an_answer_that_is_no_status_is_quoted() -> None:
    api = FakeApi()
    api.faults.append(Fault(502, body=b"<html>bad gateway"))
    async with serving(api) as kube:
        with pytest.raises(OutcomeUnknown, match="bad gateway"):
            await kube.request("GET", "/x", timeout_s=5)


@pytest.mark.parametrize("fault", [Fault(cut=True), Fault(hang=True)])
async def test_a_cut_or_a_timeout_leaves_the_outcome_unknown(fault: Fault) -> None:
    api = FakeApi()
    api.faults.append(fault)
    async with serving(api) as kube:
        with pytest.raises(OutcomeUnknown) as raised:
            await kube.request("PATCH", "/x", body=b"{}", timeout_s=0.05)
    assert raised.value.status == 0
    assert len(api.requests) == 1


async def test_nobody_there_is_an_unknown_outcome() -> None:
    async with serving(FakeApi()) as kube:
        pass
    async with serving(FakeApi()) as other:
        gone = Kube(other._session, "http://127.0.0.1:9")  # noqa: SLF001
        with pytest.raises(OutcomeUnknown):
            await gone.request("GET", "/x", timeout_s=2)
    assert kube is not other


async def test_a_get_that_is_throttled_is_asked_again_within_its_time() -> None:
    api = FakeApi()
    wait = Fault(429, {"Retry-After": "0.01"})
    api.faults.extend([wait, wait])
    async with serving(api) as kube:
        assert (await kube.request("GET", "/x", timeout_s=5)).status == 200
        assert len(api.requests) == 3
        api.faults.extend(wait for _ in range(20))
        with pytest.raises(Throttled) as raised:
            await kube.request("GET", "/x", timeout_s=5)
        assert raised.value.retry_after_s == pytest.approx(0.01)
        assert len(api.requests) == 7
        api.faults.clear()
        api.faults.append(Fault(429, {"Retry-After": "60"}))
        with pytest.raises(Throttled):
            await kube.request("GET", "/x", timeout_s=1)
        assert len(api.requests) == 8


async def test_what_is_sent() -> None:
    api = FakeApi()
    async with serving(api) as kube:
        patch = [{"op": "test", "path": "/metadata/uid", "value": "u"}]
        await kube.request(
            "PATCH",
            paths.reservation(ObjectKey("alice", "sprint"), "status"),
            query={"fieldManager": "x y"},
            body=patch,
            content_type=JSON_PATCH,
            timeout_s=5,
        )
        await kube.request("POST", "/raw", body=b"as it is", timeout_s=5)
        await kube.request("GET", "/none", timeout_s=5)
    first, second, third = api.requests
    assert first.path == "/apis/gpures.dev/v1alpha1/namespaces/alice/gpureservations/sprint/status"
    assert first.query == {"fieldManager": "x y"}
    assert first.headers["Content-Type"] == "application/json-patch+json"
    assert json.loads(first.body) == patch
    assert second.body == b"as it is"
    assert second.headers["Content-Type"] == "application/json"
    assert "Content-Type" not in third.headers
    assert third.headers["Accept-Encoding"] == "identity"


async def test_every_answer_tells_the_clock() -> None:
    samples: list[tuple[Instant, float, float]] = []
    api = FakeApi()
    api.faults.append(Fault(404))
    async with serving(api, on_date=lambda *sample: samples.append(sample)) as kube:
        with pytest.raises(NotFound):
            await kube.request("GET", "/x", timeout_s=5)
        async with kube.stream("/x", {"watch": "1", "resourceVersion": "0"}, 5):
            pass
    assert len(samples) == 2
    date, sent, received = samples[0]
    assert date.tzinfo is UTC
    assert date.microsecond == 0
    assert 0 < received - sent < 5
    assert bounds_of(*samples[0]).width < 10


async def test_lines_of_a_watch_and_its_ends() -> None:
    api = FakeApi()
    api.put(manifests.a_pod("a"))
    query = {"watch": "1", "resourceVersion": "0"}
    async with serving(api) as kube:
        async with kube.stream(paths.pods(), query, 5) as lines:
            async for line in lines:
                assert json.loads(line)["object"]["metadata"]["name"] == "a"
                api.end()
        async with kube.stream(paths.pods(), query, 5) as lines:
            await anext(lines)
            api.cut()
            with pytest.raises(OutcomeUnknown, match="WATCH /api/v1/pods"):
                await anext(lines)
        async with kube.stream(paths.pods(), query, 0.05) as lines:
            await anext(lines)
            with pytest.raises(OutcomeUnknown):
                await anext(lines)
        api.watch_faults.append(Fault(403, body={"message": "no right to watch"}))
        with pytest.raises(Refused, match="no right to watch"):
            async with kube.stream(paths.pods(), query, 5):
                pass


async def test_a_token_that_is_not_accepted_is_loud() -> None:
    api = FakeApi()
    api.faults.append(Fault(401))
    async with serving(api) as kube:
        with capture_logs() as logs, pytest.raises(Refused):
            await kube.request("GET", "/x", timeout_s=5)
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("api.unauthorized", "error")]


async def test_cancelling_a_request_ends_it() -> None:
    api = FakeApi()
    api.faults.append(Fault(hang=True))
    async with serving(api) as kube:
        task = asyncio.create_task(kube.request("GET", "/x", timeout_s=60))
        await eventually(lambda: api.requests)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (paths.pods(), "/api/v1/pods"),
        (paths.pods("alice"), "/api/v1/namespaces/alice/pods"),
        (paths.pod(ObjectKey("alice", "a"), "eviction"), "/api/v1/namespaces/alice/pods/a/eviction"),
        (paths.nodes("n/../1"), "/api/v1/nodes/n%2F..%2F1"),
        (paths.classes("h100", "status"), "/apis/gpures.dev/v1alpha1/gpuclasses/h100/status"),
        (paths.reservations(), "/apis/gpures.dev/v1alpha1/gpureservations"),
        (paths.events("default"), "/apis/events.k8s.io/v1/namespaces/default/events"),
        (paths.leases("s", "l?x"), "/apis/coordination.k8s.io/v1/namespaces/s/leases/l%3Fx"),
    ],
)
def test_paths(path: str, expected: str) -> None:
    assert path == expected


def test_a_subresource_needs_a_name() -> None:
    with pytest.raises(ValueError, match="eviction"):
        paths.pods("alice", sub="eviction")


def test_dates() -> None:
    assert answers.date_of("Tue, 01 Dec 2026 09:00:00 GMT") == datetime(2026, 12, 1, 9, tzinfo=UTC)
    assert answers.date_of("") is None
    assert answers.date_of("yesterday") is None


class Settings:
    kube_context = ""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig


def kubeconfig(folder: Path, user: dict[str, Any]) -> Settings:
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1/"}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "config"
    path.write_text(yaml.safe_dump(content))
    return Settings(path)


async def test_the_kubeconfig_says_where_and_as_whom(tmp_path: Path) -> None:
    async with load(kubeconfig(tmp_path, {"token": "hush"})) as access:
        assert access.base == "http://127.0.0.1:1"
        assert await access.authorization() == "Bearer hush"
        assert access.proxy is None
    async with load(kubeconfig(tmp_path, {})) as access:
        assert await access.authorization() is None
    async with connect(kubeconfig(tmp_path, {})) as kube:
        with pytest.raises(OutcomeUnknown):
            await kube.request("GET", "/", timeout_s=2)
