"""However reservations are confirmed, changed and cancelled, no instant is ever promised twice."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from common.domain import capacity, confirmation
from common.domain.confirmation import Judgement
from common.domain.gpu_class import Limits
from common.domain.reservation import Granted, ObjectKey, Phase, Reservation, Wish
from common.domain.texts import Display
from common.domain.time import Instant
from tests.property.profile import CALM
from tests.support.builders import NINE, a_class, a_reservation

MINUTE = timedelta(minutes=1)
BOOKABLE = 5
PER_NAMESPACE = 3
CLASS = a_class(limits=Limits(max_units_per_namespace=PER_NAMESPACE))


@dataclass(frozen=True)
class Step:
    """`which` picks a reservation to change; minutes count from the instant of the step."""

    kind: str
    which: int
    units: int
    start: int
    length: int
    passes: int


steps = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(["book", "book", "book", "extend", "resize", "cancel"]),
        which=st.integers(0, 9),
        units=st.integers(1, PER_NAMESPACE),
        start=st.integers(-3, 40),
        length=st.integers(1, 40),
        passes=st.integers(0, 15),
    ),
    min_size=5,
    max_size=25,
)


@dataclass
class Ledger:
    """What a leader does with verdicts, without an API server."""

    rows: dict[str, Reservation] = field(default_factory=dict)
    now: Instant = NINE

    def take(self, step: Step) -> None:
        self.now += step.passes * MINUTE
        for over in list(self.rows.values()):
            if over.granted is not None and self.now >= over.granted.window.end:
                self.rows[over.name] = replace(over, phase=Phase.ENDED, granted=None)
        row = self.rows.get(f"r{step.which}")
        if step.kind == "book":
            self.book(step)
        elif row is not None and row.granted is not None:
            self.alter(step, row, row.granted)

    def book(self, step: Step) -> None:
        key = ObjectKey("alice" if step.which % 2 else "bob", f"r{len(self.rows)}")
        wish = Wish("h100", step.units, self.now + step.start * MINUTE, duration=step.length * MINUTE)
        row = a_reservation(key=key, phase=Phase.CONFIRMING, wish=wish)
        verdict = confirmation.judge(row, CLASS, list(self.rows.values()), BOOKABLE, self.now, Display())
        phase = Phase.CONFIRMED if verdict.granted is not None else Phase.DENIED
        self.rows[key.name] = replace(row, phase=phase, granted=verdict.granted)

    def alter(self, step: Step, row: Reservation, granted: Granted) -> None:
        if step.kind == "cancel":
            self.rows[row.name] = replace(row, phase=Phase.CANCELED, granted=None)
            return
        longer = replace(row.wish, duration=(row.wish.duration or timedelta()) + (step.start - 5) * MINUTE)
        wished = replace(row, wish=longer if step.kind == "extend" else replace(row.wish, units=step.units))
        others = [r for r in self.rows.values() if r.name != row.name]
        verdict = confirmation.judge_change(wished, granted, CLASS, others, BOOKABLE, self.now, Display())
        self.rows[row.name] = replace(wished, granted=verdict.granted or granted)

    def most(self, rows: Iterable[Reservation]) -> int:
        """Committed at the fullest instant from now on; it can only be one at which something starts."""
        kept = capacity.commitments(rows)
        return max(capacity.committed_at(kept, i) for i in [self.now, *(c.window.start for c in kept)])


@CALM
@given(steps)
def test_no_instant_is_ever_promised_twice(taken: list[Step]) -> None:
    ledger = Ledger()
    for step in taken:
        ledger.take(step)
        rows = ledger.rows.values()
        assert ledger.most(rows) <= BOOKABLE
        for namespace in ("alice", "bob"):
            assert ledger.most(r for r in rows if r.namespace == namespace) <= PER_NAMESPACE


@CALM
@given(steps, st.integers(1, PER_NAMESPACE), st.integers(1, 40))
def test_the_slot_that_a_denial_names_would_have_been_granted(taken: list[Step], units: int, length: int) -> None:
    ledger = Ledger()
    for step in taken:
        ledger.take(step)
    others = list(ledger.rows.values())

    def ask(start: Instant) -> confirmation.Verdict:
        wish = Wish("h100", units, start, duration=length * MINUTE)
        row = a_reservation("new", phase=Phase.CONFIRMING, wish=wish)
        return confirmation.judge(row, CLASS, others, BOOKABLE, ledger.now, Display())

    denied = ask(ledger.now)
    if denied.reason is Judgement.NO_CAPACITY:
        named = denied.message.rsplit(": ", 1)[1]
        slots = (ledger.now + n * MINUTE for n in range(200))
        assert named == next(Display().instant(slot) for slot in slots if ask(slot).granted is not None)
