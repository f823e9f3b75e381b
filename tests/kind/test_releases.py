"""From this release to the one before and back, with pods in flight: nobody loses anything, nobody comes in wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.history import History
from tests.e2e.stage import DEADLINE_S
from tests.kind.previous import Previous, previous
from tests.kind.running import Record
from tests.kind.stage import KindStage, KindTenant
from tests.support.older import NoHistoryError

pytestmark = pytest.mark.kind


@pytest.fixture(scope="module")
def before() -> Iterator[Previous]:
    with ExitStack() as stack:
        try:
            yield stack.enter_context(previous())
        except NoHistoryError as reason:
            pytest.skip(str(reason))


def test_release_before_and_this_one_take_over_from_each_other(
    stage: KindStage, before: Previous, record_property: Record
) -> None:
    record_property("the release before", before.revision)
    alice = stage.tenant()
    installation = stage.installation
    with History(stage.admin, stage.gpu_class, 24):
        alice.hold_open(units=2)
        alice.create_pod("running")
        kept = alice.runs("running")
        alice.create_pod("leaving")
        alice.runs("leaving")
        alice.create_pod("waiting")
        alice.waits_for("waiting", "ReservationFull")

        installation.upgrade(before.chart, before.image)
        _as_before(alice, kept)
        # Who was held by the one is let in by the other.
        alice.client.delete("pods", "leaving", alice.namespace)
        alice.runs("waiting")
        alice.create_pod("next")
        alice.waits_for("next", "ReservationFull")

        installation.upgrade()
        assert installation.certified()
        _as_before(alice, kept)
        assert reading.held(alice.pod("next"))
        alice.client.delete("pods", "waiting", alice.namespace)
        alice.runs("next")


def _as_before(tenant: KindTenant, kept: dict[str, object]) -> None:
    """The pod that ran is the same, and the webhooks know that the reservation is full."""
    now = tenant.pod("running")
    assert (now["metadata"]["uid"], now["spec"]) == (kept["metadata"]["uid"], kept["spec"])  # type: ignore[index]
    assert reading.phase(now) == "Running"
    probe = tenant.manifest("probe")

    def full() -> bool:
        return reading.reason(tenant.admin.create(probe, dry_run=True).object) == "ReservationFull"

    until(full, DEADLINE_S, "the webhooks know the reservation")
