"""The Event of a hold goes to the owner as well: once for each reason, however many pods wait."""

import asyncio
import contextlib

from tests.support.fake_kube import Object
from tests.support.waiting import eventually
from tests.unit.reconciler.stage import Stage


def owned(stage: Stage, name: str, namespace: str = "alice", kind: str = "Job", owner: str = "train") -> None:
    reference = {"apiVersion": "batch/v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    stage.hold(name, namespace, ownerReferences=[reference])


async def events(stage: Stage, count: int) -> list[tuple[str, str, str]]:
    """Kind, name and reason of each Event about pods and their owners, once so many are stored."""
    sending = asyncio.create_task(stage.leader.world.events.run())
    try:
        await eventually(lambda: len(_stored(stage)) >= count, f"{count} Events")
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending
    found = sorted((body["regarding"]["kind"], body["regarding"]["name"], body["reason"]) for body in _stored(stage))
    assert len(found) == count, found
    return found


def _stored(stage: Stage) -> list[Object]:
    stored = [body for (plural, _, _), body in stage.kube.objects.items() if plural == "events"]
    return [body for body in stored if not body["regarding"]["kind"].startswith("GPU")]


async def test_three_pods_of_one_job_are_one_event_for_the_job() -> None:
    stage = Stage()
    for number in range(3):
        owned(stage, f"train-{number}")
    await stage.advance(6)
    assert await events(stage, 4) == [
        ("Job", "train", "NoReservation"),
        *(("Pod", f"train-{number}", "NoReservation") for number in range(3)),
    ]


async def test_owners_of_one_name_are_told_each_and_bare_pods_have_none() -> None:
    stage = Stage()
    owned(stage, "train-0")
    owned(stage, "train-0", "bob")
    owned(stage, "db-0", kind="StatefulSet", owner="db")
    stage.hold("bare")
    await stage.advance(6)
    found = await events(stage, 7)
    assert [(kind, name) for kind, name, _ in found if kind != "Pod"] == [
        ("Job", "train"),
        ("Job", "train"),
        ("StatefulSet", "db"),
    ]


async def test_another_reason_is_told_to_the_owner_too_and_the_old_one_again_after_a_while() -> None:
    stage = Stage()
    owned(stage, "train-0")
    await stage.advance(6)
    stage.book(start="2026-12-01T12:00:00Z")
    await stage.advance(1)
    told = [("Job", "train", "NoReservation"), ("Job", "train", "WaitingForReservation")]
    assert [each for each in await events(stage, 4) if each[0] == "Job"] == told
    owned(stage, "train-1")
    await stage.advance(6)
    assert [each for each in await events(stage, 5) if each[0] == "Job"] == told
    owned(stage, "train-2")
    await stage.advance(31 * 60)
    owned(stage, "train-3")
    await stage.advance(6)
    await events(stage, 7)
    (again,) = [body for body in _stored(stage) if body["regarding"]["kind"] == "Job" and "series" in body]
    assert (again["reason"], again["series"]["count"]) == ("WaitingForReservation", 2)
