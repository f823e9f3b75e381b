"""Claims and windows against a model, whatever is lost, late, stale or done twice (issue 3, section 6, item 9).

Users book, change, cancel and delete; pods come, end and go; replicas of the webhook claim on stale views; leaders
plan on stale views, freeze, and thaw. After each step the rules of design section 3 are checked.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from common.domain import admission, confirmation, keys, routing, tokens, windows
from common.domain.orphans import CREATE_BOUND
from common.domain.pod import PodPhase, PodView
from common.domain.reasons import Hold
from common.domain.reservation import OPENABLE, TERMINAL, Phase, Token, Wish
from common.domain.texts import Display
from common.domain.time import Instant
from tests.property.claims_api import Api, Informers, opened
from tests.property.claims_leader import MISSES, Leader, Weather
from tests.property.profile import MACHINE
from tests.support.builders import NINE, a_class, a_pod, a_reservation

BOOKABLE = 4
CREATE_ENDS = timedelta(seconds=34)
"""After this the API server has ended every request (tried)."""
NAMES = ("a", "b", "c")
SECOND = timedelta(seconds=1)
CLASS = a_class()

names = st.sampled_from(NAMES)
seconds = st.sampled_from([1, 5, 20, 33, 40, 61, 300])


class Claims(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.now: Instant = NINE
        self.api = Api()
        self.replica = Informers(self.api)
        self.leader = Leader(self.api, Informers(self.api), CLASS)
        self.ids = 0
        self.late: list[tuple[Instant, Callable[[], object]]] = []
        """Requests that the network has swallowed, and may deliver until their instant."""
        self.ended: dict[str, Phase] = {}

    # Users

    @rule(name=names, units=st.integers(1, 3), start=st.integers(-30, 90), length=st.integers(30, 300))
    def book(self, name: str, units: int, start: int, length: int) -> None:
        if name in self.api.reservations:
            return
        wish = Wish("h100", units, self.now + start * SECOND, duration=length * SECOND)
        row = a_reservation(name, uid=f"r{self._id()}", wish=wish, phase=Phase.CONFIRMING)
        others = list(self.api.reservations.values())
        verdict = confirmation.judge(row, CLASS, others, BOOKABLE, self.now, Display())
        phase = Phase.CONFIRMED if verdict.granted is not None else Phase.DENIED
        self.api.put(replace(row, phase=phase, granted=verdict.granted))

    @rule(name=names, units=st.integers(1, 4), length=st.integers(10, 400))
    def change(self, name: str, units: int, length: int) -> None:
        row = self.api.reservations.get(name)
        if row is None or row.granted is None:
            return
        wished = replace(row, wish=replace(row.wish, units=units, duration=length * SECOND))
        others = [r for r in self.api.reservations.values() if r.name != name]
        verdict = confirmation.judge_change(wished, row.granted, CLASS, others, BOOKABLE, self.now, Display())
        self.api.put(replace(wished, granted=verdict.granted or row.granted))

    @rule(name=names)
    def cancel(self, name: str) -> None:
        row = self.api.reservations.get(name)
        if row is not None:
            self.api.put(replace(row, wish=replace(row.wish, cancel=True)))

    @rule(name=names)
    def delete(self, name: str) -> None:
        if name in self.api.reservations:
            self.api.delete_reservation(name)
            self.ended.pop(name, None)

    # Pods

    @rule(units=st.integers(1, 2), answer=st.sampled_from(["stored", "stored", "lost", "late", "slow", "skipped"]))
    def create(self, units: int, answer: str) -> None:
        """A pod at CREATE. `lost`: the claim stands, its answer is cut. `late`: it may land yet. `slow`: the claim
        stands and the pod is stored later, or never (a quota refused it).
        """
        uid = f"p{self._id()}"
        pod = a_pod(uid, uid=uid, gpus=units, gated=True, created=self.now)
        mine = list(self.replica.reservations.values())
        route = routing.route(admission.ask_of(pod, CLASS), CLASS, mine, self.now, None, Display())
        if isinstance(route, Hold) or answer == "skipped":
            self.api.store_pod(pod)
            return
        name, reservation_uid = route.reservation.name, route.reservation.uid
        token = tokens.mint(self.now, units, f"w{self._id()}")
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

    @rule(which=st.integers(0, 7), how=st.sampled_from(["bind", "succeed", "delete"]))
    @precondition(lambda self: self.api.pods)
    def live_on(self, which: int, how: str) -> None:
        pod = list(self.api.pods.values())[which % len(self.api.pods)]
        if how == "delete":
            self.api.delete_pod(pod.uid)
        elif pod.admitted and pod.live:
            phase = PodPhase.RUNNING if how == "bind" else PodPhase.SUCCEEDED
            self.api.store_pod(replace(pod, node="node-1", phase=phase))

    # Time, network, leaders

    @rule(by=seconds)
    def advance(self, by: int) -> None:
        """Whoever froze for longer than its lease writes nothing more."""
        self.now += by * SECOND
        self.late = [(until, deliver) for until, deliver in self.late if self.now <= until]
        self.leader.frozen.clear()

    @rule()
    @precondition(lambda self: self.late)
    def deliver(self) -> None:
        _, request = self.late.pop(0)
        try:
            request()
        except MISSES:
            return

    @rule(reservations=st.integers(0, 3), pods=st.integers(0, 3), replica=st.integers(0, 5))
    def see(self, reservations: int, pods: int, replica: int) -> None:
        self.leader.seen.see_reservations(reservations)
        self.leader.seen.see_pods(pods)
        self.replica.see_reservations(replica)

    @rule(lost=st.booleans(), frozen=st.booleans())
    def act_on_a_stale_view(self, *, lost: bool, frozen: bool) -> None:
        self.leader.act(self.now, Weather(lost, frozen))

    @rule()
    @precondition(lambda self: self.leader.frozen)
    def thaw(self) -> None:
        self.leader.thaw()

    @rule()
    def act_on_fresh_views(self) -> None:
        """Phases, then claims, then pods: what each step wrote is seen by the next."""
        for _ in range(3):
            self.leader.seen.sync()
            self.replica.sync()
            self.leader.act(self.now, Weather())
        self.leader.seen.sync()
        self._nobody_waits_beside_room()
        self._claims_have_pods()

    # What always holds

    @invariant()
    def one_claim_of_a_pod_in_a_reservation(self) -> None:
        for reservation in self.api.reservations.values():
            holders = Counter(p.uid for t in reservation.claims if (p := self.api.holder(reservation, t)) is not None)
            assert all(count == 1 for count in holders.values()), f"{reservation.name}: {holders}"

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
        mine = list(self.api.reservations.values())
        assert all(windows.plan(row, CLASS, self.now).action is None for row in mine)
        for pod in self.api.pods.values():
            if admission.waits(pod):
                route = routing.route(admission.ask_of(pod, CLASS), CLASS, mine, self.now, None, Display())
                assert isinstance(route, Hold), f"{pod.name} waits beside {route.reservation.name}"

    def _claims_have_pods(self) -> None:
        held: Counter[str] = Counter()
        for row in self.api.reservations.values():
            for token in row.claims:
                pod = self.api.holder(row, token)
                held[pod.uid if pod is not None else token] += 1
                assert pod is not None or self._may_still_come(token), f"{token} without a pod"
                assert pod is None or pod.admitted or row.phase in OPENABLE, f"{pod} holds {row.name}, which is over"
        assert all(count == 1 for count in held.values()), f"claims of one pod: {held}"

    def _may_still_come(self, token: Token) -> bool:
        parts = tokens.parse(token)
        return parts is not None and self.now < parts.minted + CREATE_BOUND

    def _id(self) -> int:
        self.ids += 1
        return self.ids


def _sure(pod: PodView) -> bool:
    return pod.live


TestClaims = Claims.TestCase
TestClaims.settings = MACHINE
