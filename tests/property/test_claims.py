"""Two replicas claim at random while the API server fails at random: nothing is lost, nothing is hidden."""

import asyncio
import random  # noqa: TID251 - seeded, and the seed is told
from collections.abc import Mapping

import pytest

from common.adapters.clock import monotonic
from common.adapters.wire import decode_reservation
from common.domain.errors import Conflict, OutcomeUnknown, Throttled
from common.domain.reservation import ObjectKey, Reservation, Token
from tests.support.builders import a_reservation
from tests.unit.webhook.scene import FakeClaims
from webhook.breaker import Breaker
from webhook.claims import Claim, Committer, Outcome, Pace
from webhook.index import Index, LiveReservations

PODS = 120
UNITS = 25


class Unreliable(FakeClaims):
    """Answers late, cuts requests that landed, that did not, and that land only when everybody has given up."""

    def __init__(self, choice: random.Random) -> None:
        super().__init__()
        self.choice = choice
        self.landing: list[asyncio.Task[None]] = []
        self.most = 0

    async def add_claims(self, key: ObjectKey, uid: str, claims: Mapping[Token, int], timeout_s: float) -> bytes:
        await self._dawdle()
        match self.choice.randint(0, 9):
            case 0:
                raise OutcomeUnknown(0, "cut before it arrived")
            case 1:
                await super().add_claims(key, uid, claims, timeout_s)
                raise OutcomeUnknown(504, "cut after it landed")
            case 2:
                self.landing.append(asyncio.create_task(self._land_later(key, uid, dict(claims))))
                raise OutcomeUnknown(0, "cut on its way")
            case 3:
                raise Conflict(409, "the object has been modified")
            case 4:
                raise Throttled(429, "slow down", retry_after_s=0.001)
        stored = await super().add_claims(key, uid, claims, timeout_s)
        await self._dawdle()
        return stored

    def _store(self, key: ObjectKey, claims: Mapping[Token, int]) -> bytes:
        stored = super()._store(key, claims)
        self.most = max(self.most, self.stored[key].claimed)
        return stored

    async def _land_later(self, key: ObjectKey, uid: str, claims: dict[Token, int]) -> None:
        await asyncio.sleep(self.choice.random() / 50)
        try:
            await super().add_claims(key, uid, claims, 1.0)
        except Exception:  # noqa: BLE001 - refused by then: nobody hears of it
            return

    async def _dawdle(self) -> None:
        for _ in range(self.choice.randint(0, 5)):
            await asyncio.sleep(0)


class Replica:
    def __init__(self, api: Unreliable, known: Reservation) -> None:
        self.index = Index()
        self.index.reservation_changed(None, known)
        view = LiveReservations(self.index, decode_reservation, self._apply)
        breaker = Breaker(monotonic, misses=8, rest_s=0.01)
        self.committer = Committer(api, view, breaker, monotonic, Pace(pause_s=0.002))

    def _apply(self, new: Reservation) -> None:
        old = self.index.reservation(new.key)
        if old is None or int(old.version) < int(new.version):
            self.index.reservation_changed(old, new)


@pytest.mark.parametrize("seed", range(12))
async def test_every_claim_that_stands_is_known_to_its_pod(seed: int) -> None:
    choice = random.Random(seed)
    api = Unreliable(choice)
    sprint = api.stored[ObjectKey("alice", "sprint")] = a_reservation(units=UNITS, version="1")
    replicas = [Replica(api, sprint) for _ in range(2)]

    async def one(number: int) -> Claim:
        await asyncio.sleep(choice.random() / 20)
        committer = choice.choice(replicas).committer
        within_s = choice.choice((0.021, 0.03, 1.0, 1.0, 1.0))
        return await committer.claim(sprint, Token(f"t{number}"), choice.randint(1, 2), monotonic() + within_s)

    tasks = [asyncio.create_task(one(number)) for number in range(PODS)]
    gone = set(choice.sample(range(PODS), 8))
    await asyncio.sleep(choice.random() / 40)
    for number in gone:
        tasks[number].cancel()
    async with asyncio.timeout(10):
        results = await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*api.landing)
        for replica in replicas:
            await replica.committer.aclose()

    stands = api.stored[sprint.key].claims
    assert api.most <= UNITS, f"seed {seed}"
    for number, result in enumerate(results):
        if not isinstance(result, Claim):
            assert number in gone
            continue
        token = Token(f"t{number}")
        assert (result.outcome is Outcome.STANDS) <= (token in stands), f"seed {seed}: {token} was promised"
        assert (token in stands) <= (result.token == token), f"seed {seed}: {token} stands and its pod does not know"
    assert any(isinstance(result, Claim) and result.outcome is Outcome.STANDS for result in results)
    for replica in replicas:
        assert replica.committer.units_in_flight("h100") == 0
