"""Lets a pod in at CREATE where a reservation is open for it, and has it wait with a reason where none is (R2, grant).

Routing reads this replica's view: the informers' state, what our own claims were answered, and claims in flight.
The view may be behind; the API server judges each claim (R1).
"""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from common.adapters import metrics
from common.adapters.wire import PodWire, pod_view
from common.domain import inventory, keys, podpatch, routing, texts, tokens
from common.domain.admission import ask_of
from common.domain.gpu_class import GpuClass, Mode
from common.domain.pod import PodView
from common.domain.podpatch import PodParts
from common.domain.reasons import Hold, Reason
from common.domain.reservation import Reservation, Token
from common.domain.time import SURE, Clock, Instant
from webhook.claims import Committer, Outcome
from webhook.index import Index
from webhook.review import Decision, NotReady, Request, allowed, denied, patched

_CREATE = "CREATE"
_NODE_USER = "system:node:"
MOST_TOLERATIONS = 900
_ROUNDS = 3
"""How many reservations one pod tries, when the first turns out to be full or gone."""
_ITSELF = "the pod starts by itself, nothing to do"
TIMELESS = frozenset(
    {
        Reason.NO_RESERVATION,
        Reason.RESERVATION_NOT_FOUND,
        Reason.RESERVATION_PENDING,
        Reason.RESERVATION_TOO_SMALL,
        Reason.OTHER_GATE,
    }
)
"""Reasons that are right whatever time it is."""


@dataclass(frozen=True, slots=True)
class GrantSettings:
    claim_within_s: float = 2.0
    """Why 2 s and not less: feasibility.md."""
    uncertainty: timedelta = SURE


class MonotonicClock(Clock, Protocol):
    def monotonic(self) -> float: ...


@dataclass(frozen=True, slots=True)
class _Case:
    """One pod of a known class."""

    ask: routing.Ask
    gpu_class: GpuClass
    pod: PodView
    parts: PodParts
    deadline: float
    dry_run: bool


@dataclass(frozen=True, slots=True)
class _Wait:
    """Not let in; `token` is that of a claim that may stand."""

    hold: Hold
    token: Token | None = None


class Granter:
    def __init__(
        self,
        index: Index,
        committer: Committer,
        clock: MonotonicClock,
        synced: Callable[[], bool],
        display: texts.Display,
        settings: GrantSettings,
    ) -> None:
        self._index = index
        self._committer = committer
        self._clock = clock
        self._synced = synced
        self._display = display
        self._settings = settings

    async def decide(self, request: Request[PodWire], within_s: float) -> Decision:
        if request.object is None or request.operation != _CREATE:
            return allowed(request.uid)
        pod = pod_view(request.object, request.namespace)
        # A token at this place is our own, from a first run on this create: the guard refuses those of requests.
        if pod.token is not None or _is_static(pod, request.user_info.username):
            return allowed(request.uid)
        if not self._synced():
            message = "classes and reservations are not known yet, come back in a second"
            raise NotReady(message)
        if not pod.class_label:
            return self._classless(request.uid, pod)
        gpu_class = self._index.class_of(pod.class_label)
        if gpu_class is None:
            return self._unknown(request.uid, pod)
        deadline = self._clock.monotonic() + min(within_s, self._settings.claim_within_s)
        parts = podpatch.parts_of(pod)
        return await self._known(
            request.uid, _Case(ask_of(pod, gpu_class), gpu_class, pod, parts, deadline, request.dry_run)
        )

    async def _known(self, uid: str, case: _Case) -> Decision:
        passed = routing.concerns(case.gpu_class, case.ask, ())
        if passed is not None:
            operations = podpatch.release_operations(case.parts, strip=False)
            return patched(uid, operations, _told(passed), passed.told.reason if passed.told is not None else "")
        if case.gpu_class.mode_in(case.ask.namespace) is Mode.WARN:
            return self._warn(uid, case)
        if case.pod.node:
            return denied(uid, names_a_node(case.gpu_class), "NodeName")
        if len(case.pod.tolerations) > MOST_TOLERATIONS:
            # policies/check.yaml would refuse it in the end, and a claim would stand for nothing meanwhile.
            return denied(
                uid, f"the pod has more than {MOST_TOLERATIONS} tolerations; name the taints it needs", "Size"
            )
        return self._answer(uid, case, await self._admit(case))

    def _classless(self, uid: str, pod: PodView) -> Decision:
        """Asks us for nothing: only what nobody but us may write is taken out, where anything is enforced at all."""
        if not self._index.enforced_in(pod.namespace):
            return allowed(uid)
        parts = podpatch.parts_of(pod)
        return patched(uid, podpatch.release_operations(parts, strip=True), _stripped(parts))

    def _unknown(self, uid: str, pod: PodView) -> Decision:
        if pod.gated:
            # The hold policy knows a class that this view does not know yet: the pod waits until it is decided.
            return allowed(uid)
        ask = routing.Ask(pod.namespace, pod.class_label, 0, pod.labels)
        told = _told(routing.concerns(None, ask, self._index.labels))
        return allowed(uid, told, Reason.UNKNOWN_GPU_CLASS if told else "")

    async def _admit(self, case: _Case) -> podpatch.Grant | _Wait:
        """Route, mint, claim; a reservation that turns out to be full or gone sends the pod round again."""
        name = ""
        for _ in range(_ROUNDS):
            route = self._route(case)
            if isinstance(route, Hold):
                return _Wait(route)
            name, now = route.reservation.name, self._clock.now()
            token = tokens.mint(now, case.ask.units, secrets.token_hex(5))
            if case.dry_run:
                return podpatch.grant_of(route.reservation, route.granted, case.gpu_class, token, now)
            claim = await self._committer.claim(route.reservation, token, case.ask.units, case.deadline)
            if claim.reservation is not None:
                return self._granted(claim.reservation, case.gpu_class, token)
            if claim.token is not None:
                metrics.LATE_CLAIMS.inc()
                return _Wait(_undecided(f"the claim in reservation {name} is still under way", name), claim.token)
            if claim.outcome is Outcome.SKIPPED:
                return _Wait(_undecided(f"reservation {name} is open and is claimed once the pod is stored", name))
        return _Wait(_undecided(f"reservation {name} is changing just now", name))

    def _route(self, case: _Case) -> routing.Open | Hold:
        now = self._clock.now()
        mine = [self._with_claims_in_flight(r) for r in self._index.of_namespace(case.ask.namespace)]
        block = case.gpu_class.units.largest_block if case.gpu_class.units is not None else None
        route = routing.route(case.ask, case.gpu_class, mine, now, self._free(case.gpu_class), self._display, block)
        if self._clock.uncertainty() > self._settings.uncertainty:
            if isinstance(route, Hold) and route.reason in TIMELESS:
                return route
            return _undecided("the API server's time is not known to the second yet")
        if isinstance(route, Hold):
            return route
        name = route.reservation.name
        if route.reservation.fast_path_until is not None and now < route.reservation.fast_path_until:
            return _undecided(f"reservation {name} is open and is claimed once the pod is stored", name)
        return route

    def _with_claims_in_flight(self, reservation: Reservation) -> Reservation:
        in_flight = self._committer.in_flight(reservation)
        return replace(reservation, claims={**reservation.claims, **in_flight}) if in_flight else reservation

    def _free(self, gpu_class: GpuClass) -> int | None:
        """Units free on nodes by the last count, less what was claimed since."""
        claimed = self._index.claimed(gpu_class.name) + self._committer.units_in_flight(gpu_class.name)
        return inventory.free_now(gpu_class, claimed)

    def _granted(self, reservation: Reservation, gpu_class: GpuClass, token: Token) -> podpatch.Grant | _Wait:
        """Judged by the object that the API server answered with: our view may have shown an older promise."""
        now = self._clock.now()
        granted = reservation.granted
        if granted is None or not granted.window.contains(now):
            return _Wait(_undecided(f"reservation {reservation.name} changed just now", reservation.name), token)
        return podpatch.grant_of(reservation, granted, gpu_class, token, now)

    def _answer(self, uid: str, case: _Case, result: podpatch.Grant | _Wait) -> Decision:
        parts = case.parts
        stripped = _stripped(parts)
        if isinstance(result, podpatch.Grant):
            return patched(uid, podpatch.grant_operations(parts, result), stripped, "Admitted")
        if routing.held_in(case.gpu_class, case.ask.namespace):
            warning = held_warning(result.hold, self._clock.now())
            if refuses(case.pod, result.hold):
                return denied(uid, texts.refused_instead(warning), result.hold.reason)
            operations = podpatch.hold_operations(parts, result.hold, result.token)
            return patched(uid, operations, [warning, *waits_all_the_same(case.pod), *stripped], result.hold.reason)
        operations = podpatch.release_operations(parts, strip=True, token=result.token)
        return patched(uid, operations, [*unreserved(result.hold), *stripped], result.hold.reason)

    def _warn(self, uid: str, case: _Case) -> Decision:
        """Mode Warn: says what Enforce would do and does nothing, but take back the gate of a policy that is behind."""
        operations = podpatch.release_operations(case.parts, strip=False)
        if case.pod.node:
            return patched(uid, operations, [f"would be refused: {names_a_node(case.gpu_class)}"])
        route = self._route(case)
        if not isinstance(route, Hold):
            return patched(uid, operations)
        warning = held_warning(route, self._clock.now())
        if refuses(case.pod, route):
            return patched(uid, operations, [f"would be {texts.refused_instead(warning)}"])
        return patched(uid, operations, [f"would be {warning}", *waits_all_the_same(case.pod)])


def _is_static(pod: PodView, username: str) -> bool:
    """A kubelet's record of a static pod; anybody else who writes that annotation gets no exemption for it."""
    return pod.mirror and username.startswith(_NODE_USER)


def _undecided(why: str, reservation: str | None = None) -> Hold:
    return Hold(Reason.UNDECIDED, f"{why}; {_ITSELF}", reservation=reservation)


def held_warning(hold: Hold, now: Instant) -> str:
    return texts.held_warning(hold.reason, hold.sentence, hold.until, now)


def refuses(pod: PodView, hold: Hold) -> bool:
    """Whether the pod would rather not exist than wait. What is not decided yet denies nobody (R4)."""
    rather_not = not pod.owner and pod.annotations.get(keys.IF_HELD) == keys.REFUSE
    return rather_not and hold.reason is not Reason.UNDECIDED


def waits_all_the_same(pod: PodView) -> tuple[str, ...]:
    asked = pod.annotations.get(keys.IF_HELD)
    return () if asked is None else (texts.if_held_ignored(asked, controlled=bool(pod.owner)),)


def _told(passed: routing.Pass | None) -> tuple[str, ...]:
    return (passed.told.annotation,) if passed is not None and passed.told is not None else ()


def unreserved(hold: Hold) -> tuple[str, ...]:
    """With `withoutReservation: Allow` going without one is ordinary: only what the user can act on is told."""
    if hold.reason in (Reason.NO_RESERVATION, Reason.UNDECIDED):
        return ()
    return (f"goes on without a reservation: {hold.annotation}",)


def _stripped(parts: PodParts) -> tuple[str, ...]:
    foreign = podpatch.foreign_outputs(parts)
    if not foreign:
        return ()
    return (f"only the reservation system writes {texts.names(foreign)}; what the pod brought is not kept",)


def names_a_node(gpu_class: GpuClass) -> str:
    return (
        f"spec.nodeName goes round the scheduler, and so round the reservations of {gpu_class.name}; leave it out and "
        "use a node selector or affinity where the pod needs a certain node"
    )
