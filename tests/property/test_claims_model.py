"""Claims and windows against a model, whatever is lost, late, stale or done twice (issue 3, section 6, item 9).

Users book, change, cancel and delete; pods come, end and go; replicas of the webhook claim on stale views; leaders
plan on stale views, freeze, and thaw. After each step the rules of design section 3 are checked.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from common.domain import admission, confirmation, keys, routing, tokens
from common.domain.orphans import CREATE_BOUND
from common.domain.pod import PodPhase
from common.domain.reasons import Hold
from common.domain.reservation import TERMINAL, Phase, Token, Wish
from common.domain.texts import Display
from common.domain.time import Instant
from tests.property.claims_api import Api, Informers, opened
from tests.property.claims_leader import MISSES, Leader, Weather
from tests.property.profile import MACHINE
from tests.support.builders import NINE, a_class, a_pod, a_reservation

BOOKABLE = 8
CREATE_ENDS = timedelta(seconds=34)
"""After this the API server has ended every request (tried)."""
NAMES = ("a", "b", "c")
SECOND = timedelta(seconds=1)
CLASS = a_class()

names = st.sampled_from(NAMES)
seconds = st.sampled_from([1, 20, 30, 60, 200])
answers = st.sampled_from(["stored", "lost", "late", "slow", "skipped"])
ahead = st.sampled_from([0, 1, 3, 10, 1000])


class Claims(RuleBasedStateMachine):
    @initialize(first=st.lists(answers, max_size=4))
    def start(self, first: list[str]) -> None:
        self.now: Instant = NINE
        self.api = Api()
        self.leader = Leader(self.api, Informers(self.api), CLASS)
        self.ids = 0
        self.late: list[tuple[Instant, Callable[[], object]]] = []
        """Requests that the network has swallowed, and may deliver until their instant."""
        self.ended: dict[str, Phase] = {}
        self.book("a", 4, 0, 120)
        self.book("b", 4, 0, 600)
        for answer in first:
            self._create(1, answer, 0)

    # Users

    @rule(
        name=names,
        units=st.integers(1, 5),
        start=st.sampled_from([-20, 0, 0, 0, 20, 60]),
        length=st.sampled_from([30, 60, 120, 600]),
    )
    def book(self, name: str, units: int, start: int, length: int) -> None:
        if name in self.api.reservations:
            return
        wish = Wish("h100", units, self.now + start * SECOND, duration=length * SECOND)
        row = a_reservation(name, uid=f"r{self._id()}", wish=wish, phase=Phase.CONFIRMING)
        others = list(self.api.reservations.values())
        verdict = confirmation.judge(row, CLASS, others, BOOKABLE, self.now, Display())
        phase = Phase.CONFIRMED if verdict.granted is not None else Phase.DENIED
        self.api.put(replace(row, phase=phase, granted=verdict.granted))

    @rule(name=names, units=st.integers(1, 4), length=st.sampled_from([10, 60, 300, 900]))
    def change(self, name: str, units: int, length: int) -> None:
        row = self.api.reservations.get(name)
        if row is None or row.granted is None:
            return
        wished = replace(row, wish=replace(row.wish, units=units, duration=length * SECOND))
        others = [r for r in self.api.reservations.values() if r.name != name]
        verdict = confirmation.judge_change(wished, row.granted, CLASS, others, BOOKABLE, self.now, Display())
        self.api.put(replace(wished, granted=verdict.granted or row.granted))

    @rule(name=names, how=st.sampled_from(["cancel", "delete"]))
    def give_back(self, name: str, how: str) -> None:
        row = self.api.reservations.get(name)
        if row is None:
            return
        if how == "cancel":
            self.api.put(replace(row, wish=replace(row.wish, cancel=True)))
        else:
            self.api.delete_reservation(name)
            self.ended.pop(name, None)

    # Pods

    @rule(
        count=st.integers(1, 3),
        units=st.sampled_from([1, 1, 2]),
        answer=answers,
        behind=st.sampled_from([0, 0, 0, 0, 1, 3]),
    )
    def create(self, count: int, units: int, answer: str, behind: int) -> None:
        for _ in range(count):
            self._create(units, answer, behind)

    def _create(self, units: int, answer: str, behind: int) -> None:
        """A pod at CREATE, decided on a view that is some writes behind.

        `lost`: the claim stands, its answer is cut. `late`: it may land yet. `slow`: the claim stands and the pod is
        stored later, or never (a quota refused it). `skipped`: nothing was claimed.
        """
        uid = f"p{self._id()}"
        pod = a_pod(uid, uid=uid, gpus=units, gated=True, created=self.now)
        mine = list(self.api.past_reservations[-1 - behind :][0].values())
        route = routing.route(admission.ask_of(pod, CLASS), CLASS, mine, self.now, None, Display())
        if isinstance(route, Hold) or answer == "skipped":
            self.api.store_pod(pod)
            return
        name, reservation_uid = route.reservation.name, route.reservation.uid
        token = tokens.mint(self.now, units, f"w{self._id()}")
        self.api.made_for[token] = uid
        held = replace(pod, annotations={keys.CLAIM: token})

        def claim() -> bool:
            stored = self.api.add_claim(name, reservation_uid, token, units)
            return stored.granted is not None and stored.granted.window.contains(self.now)

        if answer == "late":
            self.late.append((self.now + CREATE_ENDS, claim))
            self.api.store_pod(held)
            return
        try:
            still_open = claim()
        except MISSES:
            self.api.store_pod(pod)
            return
        let_in = replace(pod, **opened(pod, token, name)) if still_open and answer != "lost" else held  # type: ignore[arg-type]
        if answer == "slow":
            self.late.append((self.now + CREATE_ENDS, lambda: self.api.store_pod(let_in)))
        else:
            self.api.store_pod(let_in)

    @rule(which=st.integers(0, 7), how=st.sampled_from(["bind", "succeed", "succeed", "delete"]))
    @precondition(lambda self: self.api.pods)
    def live_on(self, which: int, how: str) -> None:
        pod = list(self.api.pods.values())[which % len(self.api.pods)]
        if how == "delete":
            self.api.delete_pod(pod.uid)
        elif pod.admitted and pod.live:
            phase = PodPhase.RUNNING if how == "bind" else PodPhase.SUCCEEDED
            self.api.store_pod(replace(pod, node="node-1", phase=phase))

    # Time, network, leaders

    @rule(by=seconds, arrives=st.booleans(), acts=st.booleans())
    def advance(self, by: int, *, arrives: bool, acts: bool) -> None:
        """Requests on their way arrive in time or never; whoever froze for longer than its lease writes no more."""
        if arrives:
            self._deliver()
        self.now += by * SECOND
        self.late = [(until, request) for until, request in self.late if self.now <= until]
        self.leader.frozen.clear()
        if acts:
            self.act_on_fresh_views(arrives=False, thaws=False)

    @rule(reservations=ahead, pods=ahead, lost=st.booleans(), frozen=st.booleans())
    def act_on_stale_views(self, reservations: int, pods: int, *, lost: bool, frozen: bool) -> None:
        self.leader.seen.see_reservations(reservations)
        self.leader.seen.see_pods(pods)
        self.leader.act(self.now, Weather(lost, frozen))

    @rule(arrives=st.booleans(), thaws=st.booleans())
    def act_on_fresh_views(self, *, arrives: bool, thaws: bool) -> None:
        """Phases, then claims, then pods: what each step wrote is seen by the next."""
        if arrives:
            self._deliver()
        if thaws:
            self.leader.thaw()
        for _ in range(3):
            before = self.api.version
            self.leader.seen.sync()
            self.leader.act(self.now, Weather())
            if self.api.version == before:
                break
        self._nobody_waits_beside_room()
        self._claims_have_pods()

    # What always holds

    @invariant()
    def a_pod_has_one_claim_in_a_reservation(self) -> None:
        for row in self.api.reservations.values():
            holders = Counter(self.api.made_by(token) for token in row.claims)
            assert all(count == 1 for count in holders.values()), f"{row.name}: {row.claims}"

    @invariant()
    def what_was_let_in_keeps_its_claim(self) -> None:
        for pod in self.api.pods.values():
            row = self.api.reservations.get(pod.annotations.get(keys.BOOKING_REFERENCE, ""))
            if pod.admitted and pod.live and row is not None and pod.token is not None:
                assert (row.uid, pod.token) not in self.api.accepted or pod.token in row.claims, f"{pod.name}"

    @invariant()
    def promises_fit_into_the_class(self) -> None:
        rows = [r for r in self.api.reservations.values() if r.granted is not None]
        now = sum(r.granted.units for r in rows if r.granted is not None and r.granted.window.contains(self.now))
        assert now <= BOOKABLE

    @invariant()
    def the_last_phases_are_never_left(self) -> None:
        for name, row in self.api.reservations.items():
            assert self.ended.get(name) in (None, row.phase)
            if row.phase in TERMINAL:
                self.ended[name] = row.phase
                assert row.granted is None

    # What holds after a pass on fresh views

    def _nobody_waits_beside_room(self) -> None:
        rows = list(self.api.reservations.values())
        for row in rows:
            assert row.granted is None or (self.now < row.granted.window.end and not row.wish.cancel)
        for pod in self.api.pods.values():
            if admission.waits(pod):
                route = routing.route(admission.ask_of(pod, CLASS), CLASS, rows, self.now, None, Display())
                assert isinstance(route, Hold), f"{pod.name} waits beside {route.reservation.name}"

    def _claims_have_pods(self) -> None:
        held: Counter[str] = Counter()
        for row in self.api.reservations.values():
            for token in row.claims:
                uid = self.api.made_by(token)
                pod = self.api.pods.get(uid)
                held[uid] += 1
                if pod is None or not pod.live:
                    assert self._may_still_come(token), f"{token} without a pod"
                elif not pod.admitted:
                    assert row.granted is not None, f"{uid} holds {row.name}, which is over"
                    assert not row.granted.window.contains(self.now), f"{uid} waits for its own claim"
        assert all(count == 1 for count in held.values()), f"claims of one pod: {held}"

    def _may_still_come(self, token: Token) -> bool:
        parts = tokens.parse(token)
        young = parts is not None and self.now < parts.minted + CREATE_BOUND
        return young and not self.api.was_stored(self.api.made_by(token))

    def _deliver(self) -> None:
        late, self.late = self.late, []
        for _, request in late:
            with suppress(*MISSES):
                request()

    def _id(self) -> int:
        self.ids += 1
        return self.ids


TestClaims = Claims.TestCase
TestClaims.settings = MACHINE
