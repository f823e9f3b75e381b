"""The main job with real kubelets: pods start when they may, and make room when they end."""

from __future__ import annotations

from datetime import timedelta

from tests.controlplane.polling import never
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S
from tests.kind.running import Record
from tests.kind.stage import KindStage, seconds

AHEAD = timedelta(seconds=12)
QUIET_S = 3.0


def test_pod_in_an_open_window_is_bound_and_runs(stage: KindStage, record_property: Record) -> None:
    alice = stage.tenant()
    alice.hold_open(units=2)
    reply = alice.create_pod("trainer-0", gpus=2)
    assert reply.warnings == ()
    assert reading.let_in(reply.object)
    pod = alice.runs("trainer-0")
    took = seconds(pod, pod["metadata"]["creationTimestamp"])
    record_property("seconds", f"{took.total_seconds():.0f}")
    assert list(reading.claims(alice.reservation()).values()) == [2]


def test_pod_before_its_window_starts_when_it_opens(stage: KindStage, record_property: Record) -> None:
    alice = stage.tenant()
    start = reading.on_the_wire(stage.now() + AHEAD)
    alice.book_ahead("sprint", 2, reading.instant(start))
    reply = alice.create_pod("early")
    assert "held: reservation sprint" in reply.warnings[0]
    assert reading.held(alice.pod("early"))
    pod = alice.runs("early", AHEAD.total_seconds() + DEADLINE_S)
    late = seconds(pod, start)
    record_property("seconds after the window opened", f"{late.total_seconds():.0f}")
    assert late >= timedelta(0)
    # No gate, no word that it waits is left.
    assert not reading.held(pod)
    assert reading.reason(pod) == ""


def test_pod_without_a_reservation_waits_until_one_is_booked(stage: KindStage) -> None:
    alice = stage.tenant()
    alice.create_pod("trainer-0")
    alice.waits_for("trainer-0", "NoReservation")
    never(lambda: reading.node(alice.pod("trainer-0")), QUIET_S, "the pod is bound")
    alice.book()
    alice.runs("trainer-0")


def test_full_reservation_lets_the_next_pod_in_when_one_ends(stage: KindStage) -> None:
    alice = stage.tenant()
    alice.hold_open(units=2)
    alice.create_pod("first", args=("8s",), spec={"restartPolicy": "Never"})
    alice.create_pod("second")
    alice.create_pod("third")
    alice.runs("second")
    alice.waits_for("third", "ReservationFull")
    pod = alice.runs("third", DEADLINE_S + 8)
    (first,) = [entry for entry in alice.pods() if entry["metadata"]["name"] == "first"]
    assert reading.phase(first) == "Succeeded"
    finished = first["status"]["containerStatuses"][0]["state"]["terminated"]["finishedAt"]
    # Never more units at once than are booked.
    assert seconds(pod, finished) >= timedelta(0)


def test_pod_of_somebody_else_does_not_come_in(stage: KindStage) -> None:
    alice, bob = stage.tenant("alice"), stage.tenant("bob")
    alice.hold_open(units=8)
    bob.create_pod("sneaky")
    bob.waits_for("sneaky", "NoReservation")
    alice.create_pod("trainer-0", gpus=8)
    alice.runs("trainer-0")
    never(lambda: reading.node(bob.pod("sneaky")), QUIET_S, "the pod is bound")


def test_pod_without_gpus_runs_as_if_we_were_not_there(stage: KindStage) -> None:
    alice = stage.tenant()
    reply = alice.create_pod("plain", gpus=0, gpu_class="")
    assert reply.warnings == ()
    pod = alice.client.get("pods", "plain", alice.namespace)
    assert reading.gates(pod) == []
    node = _running_on(stage, alice.namespace, "plain")
    assert node in stage.kind.nodes.planes


def _running_on(stage: KindStage, namespace: str, name: str) -> str:
    stage.kind.kubectl(
        "wait", "pod", name, f"--namespace={namespace}", "--for=jsonpath={.status.phase}=Running", "--timeout=20s"
    )
    return reading.node(stage.admin.get("pods", name, namespace))
