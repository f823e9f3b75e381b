"""The shell around the planners, as the reconciler has it: claims first, then pods; what is refused waits."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from common.domain import admission, keys, orphans, windows
from common.domain.admission import Admit, Slice
from common.domain.errors import Conflict, NotFound, Refused
from common.domain.gpu_class import GpuClass
from common.domain.reservation import TERMINAL, Reservation
from common.domain.texts import Display
from common.domain.time import Instant
from tests.property.claims_api import Api, Informers, opened

MISSES = (Conflict, NotFound, Refused)


@dataclass(frozen=True)
class Weather:
    """`lost`: answers to claims do not arrive. `frozen`: the last write of each action comes later, or never."""

    lost: bool = False
    frozen: bool = False


@dataclass
class Leader:
    api: Api
    seen: Informers
    gpu_class: GpuClass
    frozen: list[Callable[[], None]] = field(default_factory=list)

    def act(self, now: Instant, weather: Weather) -> None:
        """One pass over everything, on what the informers have seen."""
        for reservation in list(self.seen.reservations.values()):
            self._change_phase(windows.plan(reservation, self.gpu_class, now))
        for reservation in list(self.seen.reservations.values()):
            findings = orphans.plan(reservation, self.seen.pods.values(), self.seen.finished, now)
            self._settle(findings, weather)
        waiting = [pod for pod in self.seen.pods.values() if admission.waits(pod)]
        mine = list(self.seen.reservations.values())
        for action in admission.plan(Slice(self.gpu_class, mine, waiting, None, ()), now, Display()):
            if isinstance(action, Admit):
                self._admit(action, now, weather)

    def thaw(self) -> None:
        """What was under way when the leader froze happens now, whatever happened meanwhile."""
        late, self.frozen = self.frozen, []
        for write in late:
            _attempt(write)

    def _change_phase(self, due: windows.Due) -> None:
        change = due.action
        if not isinstance(change, windows.PhaseChange):
            return
        seen, stored = change.reservation, self.api.reservations.get(change.reservation.name)
        if stored is None or (stored.uid, stored.phase, stored.granted) != (seen.uid, seen.phase, seen.granted):
            return
        granted = None if change.to in TERMINAL else stored.granted
        self.api.put(replace(stored, phase=change.to, granted=granted))

    def _settle(self, findings: orphans.Findings, weather: Weather) -> None:
        for withdrawal in findings.withdrawals:
            _attempt(partial(self._withdraw, withdrawal))
        if findings.release is not None:
            released = findings.release
            self._write(lambda: self.api.drop_claims(*_id(released.reservation), released.tokens), weather)
        if findings.suspicion is not None:
            suspicion = findings.suspicion
            orphaned = orphans.still_orphaned(suspicion.tokens, self.api.pods.values())
            if orphaned:
                self._write(lambda: self.api.drop_claims(*_id(suspicion.reservation), orphaned), weather)

    def _withdraw(self, withdrawal: orphans.Withdrawal) -> None:
        pod = withdrawal.pod
        self.api.write_pod(pod, annotations={k: v for k, v in pod.annotations.items() if k != keys.CLAIM})
        self.api.drop_claims(*_id(withdrawal.reservation), (withdrawal.token,))

    def _admit(self, admit: Admit, now: Instant, weather: Weather) -> None:
        seen = admit.reservation
        assert admit.granted.window.contains(now), "decided outside of the window"
        if not admit.claimed:
            try:
                self.api.add_claim(*_id(seen), admit.token, admit.units)
            except MISSES:
                return
            if weather.lost:
                return
        self._write(lambda: self._open(admit), weather)

    def _open(self, admit: Admit) -> None:
        pod, seen = admit.pod, admit.reservation
        stored = self.api.reservations.get(seen.name)
        self.api.write_pod(pod, **opened(pod, admit.token, seen.name))
        # Whoever deletes a reservation takes its claims along; nothing else may take one from under an opening.
        assert stored is None or stored.uid != seen.uid or admit.token in stored.claims, "opened without a claim"

    def _write(self, write: Callable[[], object], weather: Weather) -> None:
        if weather.frozen:
            self.frozen.append(lambda: _attempt(write))
        else:
            _attempt(write)


def _attempt(write: Callable[[], object]) -> None:
    try:
        write()
    except MISSES:
        return


def _id(reservation: Reservation) -> tuple[str, str]:
    return reservation.name, reservation.uid
