"""The reflector against an API server over real HTTP, with the faults that it is made for."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from common.adapters.backoff import Backoff
from common.adapters.history import History
from common.adapters.kinds import PODS
from common.adapters.reflector import Reflector
from common.domain.pod import PodView
from common.domain.reservation import ObjectKey
from tests.support import manifests
from tests.support.fake_api import FakeApi, Fault, serving
from tests.support.waiting import eventually

GONE = {"kind": "Status", "code": 410, "message": "too old resource version"}


@dataclass
class Watched:
    api: FakeApi
    reflector: Reflector[PodView]
    changes: list[tuple[str | None, str | None]] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        return sorted(pod.name for pod in self.reflector.values())

    async def sees(self, *names: str) -> None:
        await eventually(lambda: self.names == sorted(names), f"{sorted(names)} in the reflector")

    async def watching(self, count: int = 1) -> None:
        await eventually(lambda: len(self.api.watches()) >= count and self.api.streams, f"watch number {count}")


def named(pod: PodView | None) -> str | None:
    return None if pod is None else f"{pod.name}@{pod.version}"


@asynccontextmanager
async def watched(api: FakeApi, **settings: Any) -> AsyncIterator[Watched]:
    changes: list[tuple[str | None, str | None]] = []
    pauses: list[float] = []

    async def no_sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0)

    def on_change(old: PodView | None, new: PodView | None) -> None:
        changes.append((named(old), named(new)))

    async with serving(api) as kube:
        reflector = Reflector(kube, PODS, on_change, sleep=no_sleep, **settings)
        task = asyncio.create_task(reflector.run())
        try:
            yield Watched(api, reflector, changes, pauses)
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await eventually(lambda: not api.streams, "cancelling closes the stream")


async def test_lists_in_pages_then_follows() -> None:
    api = FakeApi()
    for index in range(7):
        api.put(manifests.a_pod(f"p{index}"))
    async with watched(api, page=3, label_selector="gpu-class", field_selector="spec.nodeName=") as seen:
        assert not seen.reflector.synced
        await seen.reflector.wait_synced(10)
        assert [request.query.get("continue") for request in api.lists()] == [None, "3", "6"]
        assert all(request.query["limit"] == "3" for request in api.lists())
        await seen.watching()
        watch = api.watches()[0].query
        assert watch["allowWatchBookmarks"] == "true"
        assert watch["resourceVersion"] == str(api.version)
        assert (watch["labelSelector"], watch["fieldSelector"]) == ("gpu-class", "spec.nodeName=")
        assert 300 <= int(watch["timeoutSeconds"]) <= 600
        stored = api.put(manifests.a_pod("p7"))
        api.delete(manifests.a_pod("p0"))
        await seen.sees(*(f"p{index}" for index in range(1, 8)))
        assert seen.changes[-2:] == [
            (None, f"p7@{stored['metadata']['resourceVersion']}"),
            ("p0@101", None),
        ]
        assert seen.reflector.get(ObjectKey("alice", "p7")) is not None
        assert len(seen.reflector) == 7


async def test_a_watch_that_ends_goes_on_from_the_last_bookmark() -> None:
    api = FakeApi()
    async with watched(api) as seen:
        await seen.watching()
        api.version += 50  # other resources move on
        api.bookmark()
        api.put(manifests.a_pod("a"))
        await seen.sees("a")
        api.version += 50
        api.bookmark()
        last = api.version
        api.end()
        await seen.watching(2)
        assert api.watches()[1].query["resourceVersion"] == str(last)
        assert seen.reflector.lists == 1


async def test_a_stream_that_is_cut_loses_nothing() -> None:
    api = FakeApi()
    async with watched(api) as seen:
        await seen.watching()
        for turn in range(4):
            api.put(manifests.a_pod(f"before-{turn}"))
            api.cut()
            api.put(manifests.a_pod(f"after-{turn}"))
            await seen.sees(*(f"{when}-{n}" for n in range(turn + 1) for when in ("before", "after")))
            await seen.watching(turn + 2)
        assert seen.reflector.lists == 1


async def test_a_forgotten_version_means_a_new_list_and_only_the_difference() -> None:
    api = FakeApi()
    api.put(manifests.a_pod("stays"))
    api.put(manifests.a_pod("goes"))
    async with watched(api) as seen:
        await seen.watching()
        seen.changes.clear()
        api.watch_faults.append(Fault(410, body=GONE))
        api.end()
        api.objects.pop(ObjectKey("alice", "goes"))
        api.version += 1
        api.compact()
        api.put(manifests.a_pod("comes"))
        await seen.sees("stays", "comes")
        assert seen.changes == [("goes@102", None), (None, f"comes@{api.version}")]
        assert seen.reflector.lists == 2


async def test_a_410_inside_the_stream_means_a_new_list_too() -> None:
    api = FakeApi()
    async with watched(api) as seen:
        await seen.watching()
        api.say(b'{"type":"ERROR","object":{"code":410,"message":"expired"}}\n')
        await eventually(lambda: seen.reflector.lists == 2, "a second list")


async def test_a_list_that_outlives_its_version_is_asked_for_in_one_piece() -> None:
    api = FakeApi()
    for index in range(5):
        api.put(manifests.a_pod(f"p{index}"))
    api.list_faults.append(Fault(410, body=GONE))
    async with watched(api, page=2) as seen:
        await seen.reflector.wait_synced(10)
        assert [request.query.get("limit") for request in api.lists()] == ["2", None]


async def test_garbage_in_the_stream_means_a_new_list() -> None:
    api = FakeApi()
    async with watched(api) as seen:
        await seen.watching()
        api.say(b"<html>\n")
        await eventually(lambda: seen.reflector.lists == 2, "a second list")
        await seen.watching(2)


async def test_a_malformed_object_stops_nothing() -> None:
    api = FakeApi()
    api.put(manifests.a_pod("bad", gpus="many"))
    async with watched(api) as seen:
        await seen.watching()
        api.put(manifests.a_pod("worse", gpus="more"))
        api.put(manifests.a_pod("good"))
        await seen.sees("good")
        assert seen.reflector.malformed == 2
        api.put(manifests.a_pod("bad"))
        await seen.sees("bad", "good")


async def test_our_own_mistakes_stop_nothing() -> None:
    api = FakeApi()
    told: list[str] = []

    def fails(_old: PodView | None, new: PodView | None) -> None:
        assert new is not None
        told.append(new.name)
        raise ZeroDivisionError

    async with serving(api) as kube:
        reflector = Reflector(kube, PODS, fails)
        task = asyncio.create_task(reflector.run())
        await eventually(lambda: api.streams)
        api.put(manifests.a_pod("a"))
        api.put(manifests.a_pod("b"))
        await eventually(lambda: told == ["a", "b"])
        assert reflector.handler_errors == 2
        assert len(reflector) == 2
        task.cancel()


async def test_a_silent_stream_is_given_up() -> None:
    api = FakeApi()
    async with watched(api, idle_timeout_s=0.05) as seen:
        await seen.watching(3)
        api.put(manifests.a_pod("a"))
        await seen.sees("a")
        assert seen.reflector.lists == 1


async def test_throttled_watches_wait_as_long_as_they_are_told() -> None:
    api = FakeApi()
    api.watch_faults.append(Fault(429, {"Retry-After": "7"}))
    async with watched(api) as seen:
        await seen.watching()
        assert 7 <= seen.pauses[0] <= 7 * 1.25


async def test_failures_in_a_row_wait_longer_and_one_good_event_resets_that() -> None:
    api = FakeApi()
    api.list_faults.extend(Fault(500) for _ in range(4))
    api.watch_faults.extend([Fault(503), Fault(500)])
    async with watched(api, backoff=Backoff(1.0, 8.0, random=lambda: 1.0)) as seen:
        await seen.watching()
        assert seen.pauses == [1, 2, 4, 8, 8, 8]
        api.put(manifests.a_pod("a"))
        await seen.sees("a")
        seen.pauses.clear()
        api.cut()
        await seen.watching(4)
        assert seen.pauses == [1]


async def test_a_watch_that_ends_at_once_again_and_again_does_not_spin() -> None:
    api = FakeApi()
    api.watch_faults.extend(Fault(200) for _ in range(5))
    async with watched(api, backoff=Backoff(1.0, 8.0, random=lambda: 1.0)) as seen:
        await seen.watching(6)
        assert seen.pauses == [1, 2, 4, 8, 8]


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_what_will_not_go_away_by_itself_is_loud(status: int) -> None:
    api = FakeApi()
    api.list_faults.append(Fault(status, body={"message": "no such right"}))
    with capture_logs() as logs:
        async with watched(api) as seen:
            await seen.reflector.wait_synced(10)
    loud = [entry for entry in logs if entry["event"] == "reflector.interrupted"]
    assert loud[0]["log_level"] == "error"
    assert "no such right" in loud[0]["message"]


def restored(api: FakeApi) -> None:
    """Put etcd back to a state of version 50, in which there is `b` alone."""
    api.version = 50
    api.history.clear()
    api.objects.clear()
    api.put(manifests.a_pod("b"))


async def test_a_restored_etcd_is_listed_anew_though_the_watch_of_a_version_to_come_fails_at_nothing() -> None:
    api = FakeApi()
    api.put(manifests.a_pod("a"))
    async with watched(api) as seen:
        await seen.watching()
        restored(api)
        api.cut()
        await seen.sees("b")
        await seen.watching(2)
        assert api.watches()[1].query["resourceVersion"] == "51"
        assert all("limit" in request.query for request in api.lists()), "in pages as ever"
        api.put(manifests.a_pod("c"))
        await seen.sees("b", "c")


async def test_a_kind_whose_watch_goes_on_is_listed_anew_as_well_and_not_believed_until_then() -> None:
    """One kind finds out; what the other one shows belongs to the same lost history."""
    api = FakeApi()
    api.put(manifests.a_pod("a"))
    history = History()
    async with watched(api, history=history) as seen:
        await seen.watching()
        api.list_faults.append(Fault(hang=True))
        history.end()
        assert not seen.reflector.synced
        restored(api)
        api.release()
        await seen.sees("b")
        assert seen.reflector.synced


async def test_a_history_that_ends_while_a_watch_is_taken_up_again_is_not_gone_on_with() -> None:
    api = FakeApi()
    api.put(manifests.a_pod("a"))
    history = History()
    async with watched(api, history=history) as seen:
        await seen.watching()
        api.list_faults.append(Fault(status=200, hang=True, body={"metadata": {"resourceVersion": "101"}}))
        api.cut()
        await eventually(lambda: len(api.lists()) == 2, "the look back")
        history.end()
        api.release()
        await eventually(lambda: seen.reflector.synced, "listed anew")
        await seen.watching(2)
        assert seen.reflector.lists == 2
        assert len(api.watches()) == 2


async def test_a_history_that_ends_while_it_is_listed_is_listed_anew() -> None:
    api = FakeApi()
    history = History()
    api.list_faults.append(Fault(status=200, hang=True, body={"metadata": {"resourceVersion": "101"}}))
    async with watched(api, history=history) as seen:
        await eventually(lambda: len(api.lists()) == 1, "the first list")
        history.end()
        api.release()
        await eventually(lambda: seen.reflector.synced, "listed anew")
        assert seen.reflector.lists == 2


async def test_who_waits_for_the_caches_waits_for_the_list_of_the_history_that_stands() -> None:
    """To return sooner would make whoever asks again and again hold the loop for ever."""
    api = FakeApi()
    history = History()
    api.list_faults.append(Fault(status=200, hang=True, body={"metadata": {"resourceVersion": "101"}}))
    async with watched(api, history=history) as seen:
        await eventually(lambda: len(api.lists()) == 1, "the first list")
        history.end()
        api.release()
        await seen.reflector.wait_synced(10)
        assert seen.reflector.synced
        history.end()
        with pytest.raises(TimeoutError):
            await seen.reflector.wait_synced(0.0)


async def test_after_an_outage_a_forgotten_version_is_listed_at_once_and_no_second_one_is() -> None:
    api = FakeApi()
    api.put(manifests.a_pod("a"))
    async with watched(api, backoff=Backoff(1.0, 8.0, random=lambda: 1.0)) as seen:
        await seen.watching()
        api.watch_faults.extend([Fault(503), Fault(503), Fault(410, body=GONE), Fault(410, body=GONE)])
        api.cut()
        await seen.watching(6)
        assert seen.pauses == [1, 2, 4, 0, 8]


async def test_our_writes_are_read_at_once() -> None:
    api = FakeApi()
    first = PODS.decode(manifests.raw(api.put(manifests.a_pod("a"))))
    async with watched(api) as seen:
        await seen.watching()
        written = PODS.decode(manifests.raw(manifests.a_pod("a", version=str(api.version + 1))))
        assert seen.reflector.apply(written)
        assert seen.reflector.get(written.key) is written
        assert not seen.reflector.apply(first)
        seen.reflector.bury(written.key, str(api.version + 2))
        assert seen.names == []
        api.put(manifests.a_pod("a"))  # the event of our write, later
        api.put(manifests.a_pod("b"))
        await eventually(lambda: "b" in seen.names)
        assert seen.names == ["b"]


async def test_age_runs_from_the_last_sign_of_life() -> None:
    api = FakeApi()
    now = 1000.0
    async with watched(api, read=lambda: now) as seen:
        assert seen.reflector.stale_for() == timedelta.max
        await seen.watching()
        now = 1042.0
        assert seen.reflector.stale_for() == timedelta(seconds=42)
        api.bookmark()
        await eventually(lambda: seen.reflector.last_event_at == 1042.0)
        assert seen.reflector.stale_for() == timedelta()


async def test_a_long_list_lets_others_run() -> None:
    api = FakeApi()
    for index in range(2000):
        api.put(manifests.a_pod(f"p{index}"))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with watched(api) as seen:
        other = asyncio.create_task(count())
        await seen.reflector.wait_synced(10)
        other.cancel()
        assert turns > 10


async def test_faults_are_counted_from_zero_so_that_the_first_is_an_increase() -> None:
    async with serving(FakeApi()) as kube:
        Reflector(kube, replace(PODS, name="just born"), lambda _old, _new: None)
    for name in ("gpures_reflector_malformed_objects_total", "gpures_reflector_handler_errors_total"):
        assert REGISTRY.get_sample_value(name, {"kind": "just born"}) == 0
