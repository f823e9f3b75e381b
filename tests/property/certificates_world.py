"""A cluster as certificates see it, on a virtual clock: late API servers, late kubelets, leaders that come and go."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from certs.rotation import Bundle, Ca, Inject, IssueCa, IssueLeaf, Leaf, Remember, Settings, Step, plan
from certs.validity import made
from tests.support.clock import NOON

NAME: Final = "gpures-webhook.gpures-system.svc"
DAY: Final = timedelta(days=1)
NOTHING: Final = timedelta()
MOMENT: Final = timedelta(microseconds=1)
STRANGER: Final = "a CA that nobody knows"
CONVERGED_WITHIN: Final = 12

T = TypeVar("T")


@dataclass
class Lag(Generic[T]):
    """What was written, and what one reader sees of it `behind` later."""

    behind: timedelta
    seen: T | None = None
    coming: list[tuple[timedelta, T]] = field(default_factory=list)

    def write(self, at: timedelta, value: T) -> None:
        self.coming.append((at + self.behind, value))

    def arrivals(self) -> Sequence[timedelta]:
        return [at for at, _ in self.coming]

    def look(self, at: timedelta) -> T | None:
        while self.coming and self.coming[0][0] <= at:
            self.seen = self.coming.pop(0)[1]
        return self.seen


class World:
    """`elapsed` is monotonic, `now` the API server's clock; both stand still unless they are moved."""

    def __init__(self, settings: Settings, lives: tuple[timedelta, timedelta], lags: Sequence[timedelta]) -> None:
        self.settings = settings
        self.ca_life, self.leaf_life = lives
        self.elapsed = NOTHING
        self.offset = NOTHING
        self.ca: Ca | None = None
        self.leaf: Leaf | None = None
        self.remembered: tuple[Ca, ...] | None = None
        self.injected: list[tuple[Ca, ...]] = [(), ()]
        self.api_servers: list[Lag[tuple[tuple[Ca, ...], ...]]] = [Lag(lag) for lag in lags]
        self.replicas: list[Lag[Leaf]] = [Lag(lag) for lag in lags]
        self.steps: list[Step] = []
        self._numbers = itertools.count(1)
        self.change_leader()

    @property
    def now(self) -> datetime:
        return NOON + self.elapsed + self.offset

    # What happens

    def change_leader(self) -> None:
        """All that a leader knows of durations goes with it."""
        self._seen_injected: object = None
        self._seen_leaf: object = None
        self._injected_at = self._leaf_at = self.elapsed

    def set_clock(self, by: timedelta) -> None:
        self.offset += by

    def lose_leaf(self) -> None:
        """The Secret is deleted: the replicas go on with the files that they have."""
        self.leaf, self.remembered = None, None

    def lose_ca(self) -> None:
        self.ca = None

    def halve_secret(self) -> None:
        """The bundle and one half of the pair are unreadable; kubelets bring no such thing to a server that checks."""
        self.leaf, self.remembered = None, ()

    def wipe(self, entry: int) -> None:
        self.injected[entry] = ()
        self._arrive()

    def replace_leaf(self) -> None:
        """Somebody stores a leaf of a CA of their own, and replicas take it."""
        self._store_leaf(Leaf(STRANGER, frozenset({NAME}), made(self.now, self.leaf_life)))

    def replace_ca(self) -> None:
        self.ca = self._new_ca()

    # What the leader does

    def settle(self, cut_after: int | None = None) -> datetime:
        """Act until nothing is left to do for now, or be cut after so many steps; returns when to come back."""
        for _ in range(CONVERGED_WITHIN):
            todo = plan(self._bundle(), self.now, self.settings)
            if not todo.steps:
                assert todo.again > self.now, "asked to come back at once, with nothing to do"
                return todo.again
            for step in todo.steps:
                if cut_after is not None and not cut_after:
                    self.change_leader()
                    return self.now
                cut_after = None if cut_after is None else cut_after - 1
                self._take(step)
        message = f"never done: {self.steps[-CONVERGED_WITHIN:]}"
        raise AssertionError(message)

    def pass_(self, span: timedelta) -> None:
        self.elapsed += max(span, NOTHING)

    def run_until(self, end: timedelta) -> None:
        """Come back when asked to and when something arrives; at each such instant, and just before it, all is well."""
        while self.elapsed < end:
            again = self.elapsed + (self.settle() - self.now)
            self.check()
            coming = (*(lag.arrivals() for lag in self.api_servers), *(lag.arrivals() for lag in self.replicas))
            arrivals = [at for each in coming for at in each if at > self.elapsed]
            following = min([again, end, *arrivals])
            self.elapsed = max(self.elapsed, following - MOMENT)
            self.check()
            self.elapsed = following

    # What must hold

    def gap(self) -> str:
        """Why some call of some API server to some replica would fail now; empty when none would."""
        now = self.now
        trusted = [server.look(self.elapsed) for server in self.api_servers]
        for leaf in (replica.look(self.elapsed) for replica in self.replicas):
            if leaf is None or not leaf.valid.holds(now):
                return f"a replica serves what does not hold: {leaf}"
            for entry in (entry for entries in trusted for entry in entries or ((),)):
                if not any(ca.id == leaf.issuer and ca.valid.holds(now) for ca in entry):
                    return f"{leaf} is not trusted by {entry} after {self.steps[-3:]}"
        return ""

    def check(self) -> None:
        assert not self.gap(), self.gap()

    def _bundle(self) -> Bundle:
        entries = tuple(self.injected)
        if entries != self._seen_injected:
            self._seen_injected, self._injected_at = entries, self.elapsed
        if self.leaf != self._seen_leaf:
            self._seen_leaf, self._leaf_at = self.leaf, self.elapsed
        known = {ca.id for ca in (self.ca, *(self.remembered or ()), *itertools.chain(*entries)) if ca}
        leaf = self.leaf and (self.leaf if self.leaf.issuer in known else replace(self.leaf, issuer=""))
        return Bundle(
            self.ca, leaf, self.remembered, entries, self.elapsed - self._injected_at, self.elapsed - self._leaf_at
        )

    def _take(self, step: Step) -> None:
        self.steps.append(step)
        match step:
            case IssueCa():
                self.ca = self._new_ca()
            case Remember(cas):
                assert self.remembered is not None
                self.remembered = cas
            case Inject(cas):
                self.injected = [cas for _ in self.injected]
                self._arrive()
            case IssueLeaf(cas):
                assert self.ca is not None
                assert all(self.ca in entry for entry in self.injected), "a leaf before its CA"
                life = min(self.leaf_life, self.ca.valid.end - self.now)
                self.remembered = cas
                self._store_leaf(Leaf(self.ca.id, frozenset({NAME}), made(self.now, life)))

    def _new_ca(self) -> Ca:
        return Ca(f"ca-{next(self._numbers)}", made(self.now, self.ca_life))

    def _store_leaf(self, leaf: Leaf) -> None:
        self.leaf = leaf
        for replica in self.replicas:
            replica.write(self.elapsed, leaf)

    def _arrive(self) -> None:
        for server in self.api_servers:
            server.write(self.elapsed, tuple(self.injected))
