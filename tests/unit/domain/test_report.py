"""Who would be held or refused if every class were enforced, and what is printed of it."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from common.domain.gpu_class import GpuClass, Mode, Unit, WithoutReservation
from common.domain.pod import NodeView, PodPhase, PodView, Toleration
from common.domain.report import Line, Outcome, Report, Seen, plan, printed
from common.domain.reservation import Reservation
from common.domain.texts import Display
from tests.support.builders import NINE, a_class, a_node, a_pod, a_reservation

OBSERVED = a_class(mode=Mode.OBSERVE)
JOB = "Job/train"
EVERYTHING = (Toleration("", "Exists"),)


def reported(
    *pods: PodView,
    classes: Sequence[GpuClass] = (OBSERVED,),
    booked: Sequence[Reservation] = (),
    nodes: Sequence[NodeView] = (),
    left_alone: frozenset[str] = frozenset(),
) -> Report:
    return plan(Seen(classes, nodes or [a_node()], pods, booked, left_alone), NINE, Display())


def outcomes(report: Report) -> list[tuple[str, str, str, str, int, int]]:
    return [(n.namespace, n.owner, n.outcome, n.reason, n.pods, n.units) for n in report.lines]


def test_pods_of_one_owner_are_one_line() -> None:
    running = [a_pod(f"train-{n}", gpus=2, node="node-1", phase=PodPhase.RUNNING, owner=JOB) for n in range(3)]
    report = reported(*running, a_pod("bare"), a_pod("notebook", "bob"))
    assert outcomes(report) == [
        ("alice", "Job/train", "held", "NoReservation", 3, 6),
        ("alice", "Pod/bare", "held", "NoReservation", 1, 1),
        ("bob", "Pod/notebook", "held", "NoReservation", 1, 1),
    ]
    assert report.lines[0].why.startswith("namespace alice has no h100 reservation")
    (total,) = report.totals
    assert (total.by_outcome[Outcome.HELD], total.by_outcome[Outcome.LET_IN], total.unreserved) == (8, 0, 6)


def test_a_booking_lets_in_as_many_as_it_has_units_the_oldest_first() -> None:
    pods = [a_pod(f"train-{n}", created=NINE.replace(minute=n), owner=JOB) for n in range(3)]
    report = reported(*reversed(pods), booked=[a_reservation()])
    assert outcomes(report) == [("alice", "Job/train", "held", "ReservationFull", 1, 1)]
    assert report.totals[0].by_outcome[Outcome.LET_IN] == 2


def test_a_pod_that_brings_its_own_toleration_would_be_refused() -> None:
    report = reported(
        a_pod("exact", admitted=True), a_pod("all", tolerations=EVERYTHING), booked=[a_reservation(units=8)]
    )
    assert [(n.owner, n.outcome, n.reason) for n in report.lines] == [
        ("Pod/all", "refused", "Toleration"),
        ("Pod/exact", "refused", "Toleration"),
    ]
    assert ["every taint" in n.why for n in report.lines] == [True, False]


def test_a_pod_without_the_label_on_nodes_of_the_class_would_be_kept_off_them() -> None:
    on_nodes = a_pod("plain", gpu_class="", node="node-1", phase=PodPhase.RUNNING)
    elsewhere = a_pod("elsewhere", gpu_class="", node="node-9", phase=PodPhase.RUNNING)
    report = reported(on_nodes, elsewhere)
    assert outcomes(report) == [("alice", "Pod/plain", "kept off", "NoLabel", 1, 1)]
    assert report.totals[0].unreserved == 1


def test_a_pod_without_the_label_where_the_class_is_the_default_would_be_held() -> None:
    default = a_class(mode=Mode.OBSERVE, default_for=frozenset({"alice"}))
    pods = [a_pod(namespace=namespace, gpu_class="") for namespace in ("alice", "bob")]
    assert outcomes(reported(*pods, classes=[default])) == [("alice", "Pod/trainer-0", "held", "NoReservation", 1, 1)]


def test_pods_without_the_label_are_nothing_to_a_class_counted_in_native_resources() -> None:
    natively = a_class("cpu", unit=Unit("core", {"cpu": Decimal(1)}), mode=Mode.OBSERVE)
    agent = a_pod("agent", gpu_class="", node="node-1", requests={"cpu": Decimal(1)})
    assert reported(agent, classes=[natively], nodes=[a_node(gpu_class="cpu")]).lines == ()


def test_namespaces_that_are_enforced_already_are_left_out() -> None:
    mixed = a_class(mode=Mode.WARN, mode_for=((frozenset({"bob"}), Mode.ENFORCE),))
    report = reported(a_pod(), a_pod(namespace="bob"), classes=[mixed])
    assert [n.namespace for n in report.lines] == ["alice"]
    assert report.totals[0].varies


@pytest.mark.parametrize(
    "pod",
    [
        a_pod(phase=PodPhase.SUCCEEDED),
        a_pod(deleting=True),
        a_pod(mirror=True),
        a_pod(gpus=0),
        a_pod(gpu_class="unknown"),
        a_pod(namespace="kube-system"),
        a_pod(token="1764582000-1-9f3c", admitted=True),
    ],
)
def test_what_is_over_or_none_of_ours_or_let_in_is_left_out(pod: PodView) -> None:
    assert reported(pod, left_alone=frozenset({"kube-system"})).lines == ()


def test_a_class_that_allows_pods_without_a_reservation_holds_nobody() -> None:
    allowing = a_class(mode=Mode.OBSERVE, without_reservation=WithoutReservation.ALLOW)
    assert reported(a_pod(), classes=[allowing]).lines == ()


def test_of_two_classes_with_one_label_the_older_one_decides() -> None:
    younger = replace(a_class("copy", label="h100"), created=NINE.replace(hour=10))
    report = reported(a_pod(), classes=[younger, OBSERVED])
    assert [n.class_name for n in report.lines] == ["h100"]
    assert [t.name for t in report.totals] == ["h100"]


def test_the_report_is_printed_as_two_tables() -> None:
    line = Line("alice", "Job/train", "h100", Outcome.HELD, "NoReservation", 2, 4, "book\none")
    report = replace(reported(a_pod(node="node-1", owner=JOB)), lines=(line,))
    assert printed(report) == [
        "NAMESPACE   OWNER       CLASS   WOULD BE   REASON          PODS   UNITS   WHY",
        "alice       Job/train   h100    held       NoReservation   2      4       book?one",
        "",
        "CLASS   MODE      LET IN   HELD   REFUSED   KEPT OFF   UNRESERVED",
        "h100    Observe   0        1      0         0          1",
    ]


def test_a_report_about_nothing_says_so() -> None:
    assert printed(reported(classes=[])) == [
        "Nobody would be held or refused if every class were enforced everywhere.",
        "",
        "There is no GPUClass.",
    ]
