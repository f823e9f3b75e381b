"""The committer: one patch in flight per reservation, bounded, and honest about what it does not know."""

import asyncio

import pytest

from common.domain.errors import Conflict, OutcomeUnknown, Refused, Throttled
from common.domain.reservation import Reservation, Token
from tests.support.builders import a_class, a_reservation
from tests.support.waiting import eventually
from tests.unit.webhook.scene import Scene
from webhook.breaker import Breaker
from webhook.claims import Claim, Outcome, Pace


def claim(
    scene: Scene, reservation: Reservation, token: str, units: int = 1, within_s: float = 5.0
) -> asyncio.Task[Claim]:
    deadline = scene.clock.monotonic() + within_s
    return asyncio.create_task(scene.committer.claim(reservation, Token(token), units, deadline))


async def test_one_claim_stands_and_is_seen_at_once() -> None:
    scene = Scene(a_class())
    sprint = scene.book(a_reservation())
    result = await claim(scene, sprint, "t")
    assert result.outcome is Outcome.STANDS
    assert result.token == "t"
    assert scene.index.claimed("h100") == 1
    assert scene.committer.in_flight(sprint) == {}


async def test_what_arrives_while_a_patch_is_under_way_shares_the_next() -> None:
    scene = Scene(a_class())
    sprint = scene.book(a_reservation(units=40))
    scene.api.passing.clear()
    first = claim(scene, sprint, "first")
    await eventually(lambda: len(scene.api.patches) == 1)
    rest = [claim(scene, sprint, f"t{number}") for number in range(20)]
    await eventually(lambda: len(scene.committer.in_flight(sprint)) == 21)
    scene.api.passing.set()
    results = await asyncio.gather(first, *rest)
    assert {result.outcome for result in results} == {Outcome.STANDS}
    assert [len(patch) for patch in scene.api.patches] == [1, 20]
    assert scene.api.most_in_flight == 1


async def test_reservations_do_not_wait_for_each_other() -> None:
    scene = Scene(a_class())
    one, other = scene.book(a_reservation("one")), scene.book(a_reservation("other"))
    scene.api.passing.clear()
    tasks = [claim(scene, one, "a"), claim(scene, other, "b")]
    await eventually(lambda: scene.api.most_in_flight == 2)
    scene.api.passing.set()
    assert {(await task).outcome for task in tasks} == {Outcome.STANDS}


async def test_first_come_first_served_when_the_api_server_refuses() -> None:
    scene = Scene(a_class())
    seen = a_reservation(units=8, version="1")
    scene.book(a_reservation(units=8, claims={"elsewhere": 6}, version="9"), seen=seen)
    results = await asyncio.gather(*(claim(scene, seen, f"t{n}") for n in range(5)))
    assert [result.outcome for result in results] == [Outcome.STANDS] * 2 + [Outcome.FULL] * 3
    assert scene.stored().claimed == 8
    assert scene.api.reads == 1
    assert [result.token for result in results[2:]] == [None] * 3


async def test_a_small_claim_fits_behind_a_large_one_that_does_not() -> None:
    scene = Scene(a_class())
    sprint = scene.book(a_reservation(units=2, claims={"x": 1}))
    large, small = claim(scene, sprint, "large", units=2), claim(scene, sprint, "small")
    assert (await large).outcome is Outcome.FULL
    assert (await small).outcome is Outcome.STANDS


async def test_a_full_reservation_is_not_asked() -> None:
    scene = Scene(a_class())
    sprint = scene.book(a_reservation(units=1, claims={"x": 1}))
    assert (await claim(scene, sprint, "t")).outcome is Outcome.FULL
    assert scene.api.patches == []


@pytest.mark.parametrize("lands", [True, False])
async def test_an_unknown_outcome_is_asked_again_with_the_same_token(lands: bool) -> None:
    scene = Scene(a_class())
    sprint = scene.book(a_reservation(units=1))
    scene.api.failures = [OutcomeUnknown(504, "timeout")]
    scene.api.lands = lands
    assert (await claim(scene, sprint, "t")).outcome is Outcome.STANDS
    assert scene.api.patches == [{"t": 1}, {"t": 1}]
    assert scene.stored().claims == {"t": 1}


async def test_outcomes_that_stay_unknown_are_late_and_keep_their_token() -> None:
    scene = Scene(a_class(), pace=Pace(attempts=3, pause_s=0.001))
    sprint = scene.book(a_reservation())
    scene.api.failures = [OutcomeUnknown(0, "cut")] * 9
    result = await claim(scene, sprint, "t")
    assert result == Claim(Outcome.LATE, Token("t"))
    assert len(scene.api.patches) == 3


async def test_a_claim_under_way_at_its_deadline_is_late() -> None:
    scene = Scene(a_class())
    sprint = scene.book(a_reservation())
    scene.api.passing.clear()
    result = await claim(scene, sprint, "t", within_s=0.03)
    assert result == Claim(Outcome.LATE, Token("t"))


async def test_a_claim_that_was_never_sent_has_no_token_to_keep() -> None:
    scene = Scene(a_class())
    sprint = scene.book(a_reservation())
    scene.api.passing.clear()
    first = claim(scene, sprint, "first")
    await eventually(lambda: len(scene.api.patches) == 1)
    result = await claim(scene, sprint, "second", within_s=0.03)
    assert result == Claim(Outcome.SKIPPED)
    scene.api.passing.set()
    assert (await first).outcome is Outcome.STANDS
    await eventually(lambda: scene.committer.in_flight(sprint) == {})
    assert scene.stored().claims == {"first": 1}


async def test_a_cancelled_waiter_does_not_break_its_batch() -> None:
    scene = Scene(a_class())
    sprint = scene.book(a_reservation(units=3))
    scene.api.passing.clear()
    first = claim(scene, sprint, "first")
    await eventually(lambda: len(scene.api.patches) == 1)
    second, third = claim(scene, sprint, "second"), claim(scene, sprint, "third")
    await eventually(lambda: len(scene.committer.in_flight(sprint)) == 3)
    first.cancel()
    second.cancel()
    scene.api.passing.set()
    assert (await third).outcome is Outcome.STANDS
    await asyncio.gather(first, second, return_exceptions=True)
    assert scene.api.patches == [{"first": 1}, {"third": 1}]


async def test_a_reservation_that_is_gone_or_was_made_anew_takes_no_claim() -> None:
    scene = Scene(a_class())
    old = a_reservation(version="1")
    scene.book(a_reservation(uid="another", version="5"))
    assert (await claim(scene, old, "t")).outcome is Outcome.GONE
    assert scene.api.patches == []
    scene.api.stored.clear()
    current = scene.index.reservation(old.key)
    assert current is not None
    assert (await claim(scene, current, "t")).outcome is Outcome.GONE


async def test_refusals_without_end_give_up() -> None:
    scene = Scene(a_class(), pace=Pace(attempts=3, pause_s=0.001))
    sprint = scene.book(a_reservation())
    scene.api.failures = [Refused(403, "not yours")] * 9
    assert (await claim(scene, sprint, "t")).outcome is Outcome.SKIPPED
    assert len(scene.api.patches) == 3


async def test_a_conflict_with_other_writers_is_asked_again_and_no_reason_to_stop() -> None:
    scene = Scene(a_class(), pace=Pace(attempts=9, pause_s=0.001))
    sprint = scene.book(a_reservation())
    scene.api.failures = [Conflict(409, "the object has been modified")] * 8
    assert (await claim(scene, sprint, "t")).outcome is Outcome.STANDS
    assert not scene.breaker.open


async def test_a_throttled_claim_waits_no_longer_than_it_has() -> None:
    scene = Scene(a_class())
    sprint = scene.book(a_reservation())
    scene.api.failures = [Throttled(429, "slow down", retry_after_s=3600)]
    assert (await claim(scene, sprint, "t")).outcome is Outcome.SKIPPED


async def test_the_queue_has_a_limit() -> None:
    scene = Scene(a_class(), pace=Pace(waiting=3))
    sprint = scene.book(a_reservation(units=9))
    scene.api.passing.clear()
    first = claim(scene, sprint, "first")
    await eventually(lambda: len(scene.api.patches) == 1)
    waiting = [claim(scene, sprint, f"t{n}") for n in range(3)]
    await eventually(lambda: len(scene.committer.in_flight(sprint)) == 4)
    assert (await claim(scene, sprint, "one too many")).outcome is Outcome.SKIPPED
    scene.api.passing.set()
    await asyncio.gather(first, *waiting)


async def test_a_breaker_that_is_open_asks_nothing_and_probes_after_its_rest() -> None:
    scene = Scene(a_class(), pace=Pace(attempts=4, pause_s=0.001))
    sprint = scene.book(a_reservation(units=9))
    scene.api.failures = [OutcomeUnknown(0, "cut")] * 4
    assert (await claim(scene, sprint, "a")).outcome is Outcome.LATE
    assert (await claim(scene, sprint, "b")).outcome is Outcome.SKIPPED
    assert len(scene.api.patches) == 4
    scene.clock.advance(5)
    assert (await claim(scene, sprint, "c")).outcome is Outcome.STANDS
    assert (await claim(scene, sprint, "d")).outcome is Outcome.STANDS


def test_an_open_breaker_lets_one_probe_through_per_rest() -> None:
    now = [0.0]
    breaker = Breaker(lambda: now[0], misses=2, rest_s=5)
    breaker.missed()
    assert breaker.allows()
    breaker.missed()
    assert not breaker.allows()
    now[0] = 5.0
    assert breaker.allows()
    assert not breaker.allows()
    breaker.succeeded()
    assert breaker.allows()


async def test_closing_leaves_nobody_waiting() -> None:
    scene = Scene(a_class())
    sprint = scene.book(a_reservation())
    scene.api.passing.clear()
    sent = claim(scene, sprint, "sent")
    await eventually(lambda: len(scene.api.patches) == 1)
    queued = claim(scene, sprint, "queued")
    await eventually(lambda: len(scene.committer.in_flight(sprint)) == 2)
    await scene.committer.aclose()
    assert (await sent) == Claim(Outcome.LATE, Token("sent"))
    assert (await queued) == Claim(Outcome.SKIPPED)
