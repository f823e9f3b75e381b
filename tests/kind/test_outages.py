"""Parts of the product away for a while: nobody is refused, nobody is let in wrongly, and everybody is let in later."""

from __future__ import annotations

from tests.controlplane.polling import never, until
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S
from tests.kind.running import Record
from tests.kind.stage import KindStage

QUIET_S = 3.0
ORPHANED_S = 60.0


def test_pods_created_while_no_webhook_answers_are_held_and_let_in_by_the_reconciler(
    stage: KindStage, record_property: Record
) -> None:
    alice = stage.tenant()
    alice.hold_open(units=1)
    probe = alice.manifest("probe")
    stage.installation.scale("gpures-webhook", 0)
    try:
        created = alice.create_pod("booked").object
        assert reading.held(created)
        assert reading.reason(created) == "Undecided"
        assert reading.tolerated(created) == []
        alice.runs("booked")
        alice.create_pod("surplus")
        alice.waits_for("surplus", "ReservationFull")
        never(lambda: reading.node(alice.pod("surplus")), QUIET_S, "the pod is bound")
    finally:
        stage.installation.scale("gpures-webhook", 2)
    until(
        lambda: reading.reason(stage.admin.create(probe, dry_run=True).object) == "ReservationFull",
        DEADLINE_S,
        "the webhook decides again",
    )
    alice.client.delete("pods", "booked", alice.namespace)
    alice.runs("surplus")


def test_reconciler_away_and_back(stage: KindStage) -> None:
    alice = stage.tenant()
    alice.hold_open(units=1)
    stage.installation.scale("gpures-reconciler", 0)
    try:
        # Admission alone lets in what is booked.
        alice.create_pod("booked")
        alice.runs("booked")
        assert reading.reason(alice.create_pod("surplus").object) == "ReservationFull"
        alice.client.delete("pods", "booked", alice.namespace)
        alice.gone("booked", DEADLINE_S)
        never(lambda: reading.node(alice.pod("surplus")), QUIET_S, "the pod is bound")
    finally:
        stage.installation.scale("gpures-reconciler", 2)
    # Nobody saw the other one end: its claim goes when it is older than any create can be.
    alice.runs("surplus", ORPHANED_S + 2 * DEADLINE_S)


def test_upgrade_and_rollback_with_pods_in_flight(stage: KindStage) -> None:
    alice = stage.tenant()
    alice.hold_open(units=1)
    alice.create_pod("running")
    alice.runs("running")
    alice.create_pod("waiting")
    alice.waits_for("waiting", "ReservationFull")
    # One more replica of each has to fit beside the old ones; there is one node for them.
    for change in ("upgrade", "rollback"):
        if change == "upgrade":
            stage.installation.upgrade("logLevel=debug")
        else:
            stage.installation.roll_back()
        assert stage.installation.certified()
        assert reading.phase(alice.pod("running")) == "Running"
        assert reading.held(alice.pod("waiting"))
        assert reading.reason(stage.admin.create(alice.manifest("probe"), dry_run=True).object) == "ReservationFull"
    alice.client.delete("pods", "running", alice.namespace)
    alice.runs("waiting")
