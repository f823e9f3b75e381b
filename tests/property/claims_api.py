"""An API server and informers in memory, for the model of claims: what it judges, and what a client may know of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from common.domain import keys
from common.domain.errors import Conflict, NotFound, Refused
from common.domain.pod import PodView
from common.domain.reservation import OPENABLE, TERMINAL, Reservation, Token
from common.domain.tolerations import reserved_toleration

T = TypeVar("T")


@dataclass
class Api:
    """The truth, and all that it ever was. Every write is judged by the rules of the CRD."""

    reservations: dict[str, Reservation] = field(default_factory=dict)
    pods: dict[str, PodView] = field(default_factory=dict)
    past_reservations: list[Mapping[str, Reservation]] = field(default_factory=lambda: [{}])
    past_pods: list[Mapping[str, PodView]] = field(default_factory=lambda: [{}])
    accepted: set[tuple[str, Token]] = field(default_factory=set)
    """Uid of a reservation and a claim that it once took."""
    made_for: dict[Token, str] = field(default_factory=dict)
    """Claims of the webhook, and the uid of the pod that each was made for."""
    version: int = 0

    def put(self, new: Reservation) -> Reservation:
        """Create or update; raises Refused as CEL does (R1, terminal phases)."""
        old = self.reservations.get(new.name)
        before: Mapping[Token, int] = old.claims if old is not None and old.uid == new.uid else {}
        if not _may_claim(before, new):
            raise Refused(422, "claims must fit into status.granted.units")
        if old is not None and old.uid == new.uid and old.phase in TERMINAL and new.phase is not old.phase:
            raise Refused(422, "terminal is terminal")
        stored = self.reservations[new.name] = replace(new, version=self._next())
        self.past_reservations.append(dict(self.reservations))
        return stored

    def delete_reservation(self, name: str) -> None:
        del self.reservations[name]
        self.past_reservations.append(dict(self.reservations))

    def add_claim(self, name: str, uid: str, token: Token, units: int) -> Reservation:
        """The JSON patch of a claim; raises NotFound, or Refused for another uid and by R1."""
        found = self._same(name, uid)
        stored = self.put(replace(found, claims={**found.claims, token: units}))
        self.accepted.add((uid, token))
        return stored

    def drop_claims(self, name: str, uid: str, tokens: tuple[Token, ...]) -> None:
        """Tests each token before it takes it out; raises NotFound or Refused."""
        found = self._same(name, uid)
        if any(token not in found.claims for token in tokens):
            raise Refused(422, "test failed")
        self.put(replace(found, claims={t: u for t, u in found.claims.items() if t not in tokens}))

    def write_pod(self, pod: PodView, **changes: object) -> PodView:
        """Under the pod's version; raises NotFound or Conflict."""
        found = self.pods.get(pod.uid)
        if found is None:
            raise NotFound(404, "no such pod")
        if found.version != pod.version:
            raise Conflict(409, "the pod has changed")
        return self.store_pod(replace(found, **changes))  # type: ignore[arg-type]

    def store_pod(self, pod: PodView) -> PodView:
        stored = self.pods[pod.uid] = replace(pod, version=self._next())
        self.past_pods.append(dict(self.pods))
        return stored

    def delete_pod(self, uid: str) -> None:
        del self.pods[uid]
        self.past_pods.append(dict(self.pods))

    def made_by(self, token: Token) -> str:
        """Uid of the pod that a claim was made for, whether it is stored yet, or still."""
        return self.made_for.get(token) or token.split("-", 2)[2]

    def was_stored(self, uid: str) -> bool:
        return any(uid in pods for pods in self.past_pods)

    def _same(self, name: str, uid: str) -> Reservation:
        found = self.reservations.get(name)
        if found is None:
            raise NotFound(404, "no such reservation")
        if found.uid != uid:
            raise Refused(422, "another object of that name")
        return found

    def _next(self) -> str:
        self.version += 1
        return str(self.version)


@dataclass
class Informers:
    """Two streams that may be behind, each on its own; what a pod was is remembered when it is seen to be over."""

    api: Api
    reservations_at: int = 0
    pods_at: int = 0
    finished: set[str] = field(default_factory=set)

    @property
    def reservations(self) -> Mapping[str, Reservation]:
        return self.api.past_reservations[self.reservations_at]

    @property
    def pods(self) -> Mapping[str, PodView]:
        return self.api.past_pods[self.pods_at]

    def see_reservations(self, steps: int) -> None:
        self.reservations_at = min(self.reservations_at + steps, len(self.api.past_reservations) - 1)

    def see_pods(self, steps: int) -> None:
        for _ in range(min(steps, len(self.api.past_pods) - 1 - self.pods_at)):
            before = self.pods
            self.pods_at += 1
            for uid, pod in before.items():
                now = self.pods.get(uid)
                if now is None or not now.live:
                    self.finished |= {
                        uid,
                        *([now.token] if now and now.token else []),
                        *([pod.token] if pod.token else []),
                    }

    def sync(self) -> None:
        self.see_reservations(len(self.api.past_reservations))
        self.see_pods(len(self.api.past_pods))


def opened(pod: PodView, token: Token, reservation: str) -> dict[str, object]:
    """What the opening patch changes."""
    return {
        "gates": tuple(gate for gate in pod.gates if gate != keys.GATE),
        "tolerations": (reserved_toleration(pod.class_label),),
        "annotations": {**pod.annotations, keys.CLAIM: token, keys.BOOKING_REFERENCE: reservation},
    }


def _may_claim(before: Mapping[Token, int], new: Reservation) -> bool:
    if all(token in before and units <= before[token] for token, units in new.claims.items()):
        return True
    return new.granted is not None and new.phase in OPENABLE and sum(new.claims.values()) <= new.granted.units
