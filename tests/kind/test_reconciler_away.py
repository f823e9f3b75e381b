"""The reconciler away for a while: nobody is let in wrongly, and everybody is let in later."""

from __future__ import annotations

from tests.controlplane.polling import never
from tests.e2e import reading
from tests.e2e.stage import DEADLINE_S
from tests.kind.stage import KindStage

QUIET_S = 3.0
ORPHANED_S = 60.0


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
