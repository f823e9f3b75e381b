"""The rest of the main job: who has no booking waits, a full one makes room, and nobody else notices anything.

Its first two rows, the open window and the one that opens later, are `test_open_window.py` and `test_windows.py`.
"""

from __future__ import annotations

import pytest

from tests.controlplane.polling import never
from tests.controlplane.recording import Recorder
from tests.e2e import reading
from tests.e2e.stage import Stage, Tenant

pytestmark = [pytest.mark.controlplane, pytest.mark.kind]

QUIET_S = 2.0


def test_pod_without_a_reservation_waits_until_one_is_booked(stage: Stage) -> None:
    stage.open(2)
    alice = stage.tenant()
    reply = alice.create_pod("trainer-0")
    assert reply.warnings[0].startswith("held: NoReservation: ")
    alice.waits_for("trainer-0", "NoReservation")
    never(lambda: reading.node(alice.pod("trainer-0")), QUIET_S, "the pod is bound")
    alice.book()
    alice.runs("trainer-0")


def test_full_reservation_lets_the_next_pod_in_when_one_ends(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.hold_open(units=2)
    with Recorder(stage.admin, "pods", alice.namespace) as recorder:
        for name in ("first", "second"):
            alice.create_pod(name)
            alice.runs(name)
        alice.create_pod("third")
        alice.waits_for("third", "ReservationFull")
        stage.cluster.nodes.complete_pod(alice.namespace, "first")
        alice.runs("third")
    assert reading.phase(alice.pod("first")) == "Succeeded"
    changes = [change.object for change in recorder.changes()]
    ended = next(at for at, pod in enumerate(changes) if _is(pod, "first") and reading.over(pod))
    entered = next(at for at, pod in enumerate(changes) if _is(pod, "third") and reading.let_in(pod))
    # Never more units at once than are booked.
    assert ended < entered


def test_pod_of_somebody_else_does_not_come_in(stage: Stage) -> None:
    stage.open(4)
    alice, bob = stage.tenant("alice"), stage.tenant("bob")
    alice.hold_open(units=4)
    bob.create_pod("sneaky")
    bob.waits_for("sneaky", "NoReservation")
    alice.create_pod("trainer-0", gpus=4)
    alice.runs("trainer-0")
    never(lambda: reading.node(bob.pod("sneaky")), QUIET_S, "the pod is bound")


def test_pod_without_gpus_runs_as_if_we_were_not_there(stage: Stage) -> None:
    stage.open(2)
    plain = stage.add_plain_node()
    alice = stage.tenant()
    reply = alice.create_pod("plain", gpus=0, gpu_class="")
    assert reply.warnings == ()
    assert reading.node(alice.runs("plain")) == plain
    assert _untouched(alice, "plain")


def _untouched(tenant: Tenant, name: str) -> bool:
    pod = tenant.pod(name)
    return not (reading.annotations(pod) or reading.labels(pod) or reading.gates(pod) or reading.tolerated(pod))


def _is(pod: dict[str, object], name: str) -> bool:
    meta = pod["metadata"]
    return isinstance(meta, dict) and meta["name"] == name
