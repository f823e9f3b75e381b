"""However reservations are extended, chained, cancelled and deleted, no pod is deleted before its guarantee ends."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from common.domain import windows
from common.domain.pod import PodView
from common.domain.reservation import OPENABLE, Granted, Phase, Reservation, Token
from common.domain.time import Instant, Window
from common.domain.unplaced import overdue
from tests.property.profile import CALM
from tests.support.builders import NINE, a_class, a_pod, a_reservation

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Step:
    """`which` picks a reservation, `pod` a pod; the step is taken after `passes` minutes."""

    kind: str
    which: int
    pod: int
    length: int
    passes: int


steps = st.lists(
    st.builds(
        Step,
        kind=st.sampled_from(["book", "let in", "let in", "chain", "extend", "cancel", "delete", "wait"]),
        which=st.integers(0, 4),
        pod=st.integers(0, 4),
        length=st.integers(1, 20),
        passes=st.integers(0, 10),
    ),
    min_size=8,
    max_size=40,
)


@dataclass
class Cluster:
    """Claims and phases as the API server would keep them; `until` is what each pod was promised."""

    rows: dict[str, Reservation] = field(default_factory=dict)
    pods: dict[int, PodView] = field(default_factory=dict)
    now: Instant = NINE

    def take(self, step: Step) -> None:
        self.now += step.passes * MINUTE
        self.phases()
        name = f"r{step.which}"
        row = self.rows.get(name)
        if step.kind == "book" and row is None:
            window = Window(self.now, self.now + step.length * MINUTE)
            self.rows[name] = a_reservation(name, phase=Phase.ACTIVE, granted=Granted(window, 9))
        elif row is not None and row.granted is not None:
            self.change(step, row, row.granted)

    def change(self, step: Step, row: Reservation, granted: Granted) -> None:
        if step.kind == "let in" and step.pod not in self.pods:
            self.pods[step.pod] = a_pod(f"p{step.pod}", admitted=True, token=f"token-{step.pod}")
        if step.kind in ("let in", "chain") and step.pod in self.pods:
            if self.until(self.pods[step.pod]) is not None or step.kind == "let in":
                claims = {**row.claims, Token(f"token-{step.pod}"): 1}
                self.rows[row.name] = replace(row, claims=claims)
        elif step.kind == "extend":
            longer = Window(granted.window.start, granted.window.end + step.length * MINUTE)
            self.rows[row.name] = replace(row, granted=Granted(longer, granted.units))
        elif step.kind == "cancel":
            self.rows[row.name] = replace(row, wish=replace(row.wish, cancel=True))
            self.phases()
        elif step.kind == "delete":
            del self.rows[row.name]

    def phases(self) -> None:
        """What the leader does at each instant, before anything else."""
        for row in list(self.rows.values()):
            due = windows.plan(row, None, self.now)
            if isinstance(due.action, windows.PhaseChange) and due.action.to not in OPENABLE:
                self.rows[row.name] = replace(row, phase=due.action.to, granted=None)

    def until(self, pod: PodView) -> Instant | None:
        """The end of the pod's guarantee, None when it has none any more."""
        ends = [r.granted.window.end for r in self.rows.values() if r.granted and pod.token in r.claims]
        return max((end for end in ends if end > self.now), default=None)


@CALM
@given(steps)
def test_a_pod_is_overdue_exactly_when_its_guarantee_has_ended(taken: list[Step]) -> None:
    cluster = Cluster()
    for step in taken:
        cluster.take(step)
        found = {pod.name for pod in overdue(cluster.pods.values(), cluster.rows.values(), a_class())}
        assert found == {pod.name for pod in cluster.pods.values() if cluster.until(pod) is None}
