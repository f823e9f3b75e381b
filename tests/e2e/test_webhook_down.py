"""While every webhook is down nobody's pods are refused, and no door is open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from common.domain import keys
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.forging import fifty_forgeries
from tests.e2e.stage import DEADLINE_S, Stage
from tests.e2e.venue import Venue

pytestmark = pytest.mark.controlplane

VENUES = {"hold-policy": "venue", "taint-alone": "venue_without_hold_policy"}


@pytest.fixture(scope="module", params=VENUES)
def venue_without_webhooks(request: pytest.FixtureRequest) -> Iterator[Venue]:
    venue: Venue = request.getfixturevalue(VENUES[request.param])
    with venue.webhooks_stopped():
        yield venue


@pytest.fixture(name="stage")
def stage_without_webhooks(venue_without_webhooks: Venue) -> Iterator[Stage]:
    stage = venue_without_webhooks.stage()
    yield stage
    stage.close()


def test_pods_are_created_and_wait_and_the_reconciler_lets_them_in(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.hold_open(units=2)
    _policy_knows(stage)
    created = [alice.create_pod(name).object for name in ("first", "second", "third")]
    for pod in created:
        _is_kept_off(stage, pod)
    inside = [alice.runs(name) for name in ("first", "second")]
    assert all(map(reading.let_in, inside))
    waiting = alice.waits_for("third", "ReservationFull")
    assert reading.node(waiting) == ""
    assert reading.held(waiting) is stage.product.hold
    stage.cluster.nodes.complete_pod(alice.namespace, "first")
    alice.runs("third")


def test_pod_without_a_booking_stays_off_the_nodes_until_one_is_made(stage: Stage) -> None:
    stage.open(2)
    alice = stage.tenant()
    _policy_knows(stage)
    _is_kept_off(stage, alice.create_pod("trainer-0").object)
    waiting = alice.waits_for("trainer-0", "NoReservation")
    blocked = reading.condition(waiting, "PodScheduled")["reason"]
    assert blocked == ("SchedulingGated" if stage.product.hold else "Unschedulable")
    alice.book("sprint", units=1)
    alice.runs("trainer-0")


def test_fifty_forged_pods_at_once_are_refused(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.hold_open(units=4)
    _policy_knows(stage)
    alice.create_pod("trainer-0")
    token = reading.annotations(alice.runs("trainer-0"))[keys.CLAIM]
    refused = fifty_forgeries(alice, token)
    assert {error.code for error in refused} == {500}
    assert all('failed calling webhook "guard.gpures.dev"' in error.message for error in refused)
    assert [pod["metadata"]["name"] for pod in alice.pods()] == ["trainer-0"]


def _policy_knows(stage: Stage) -> None:
    if stage.product.hold:
        probe = stage.tenants[0].manifest("probe")
        until(lambda: reading.held(stage.admin.create(probe, dry_run=True).object), DEADLINE_S, "hold policy in force")


def _is_kept_off(stage: Stage, created: JsonObject) -> None:
    """The hold policy says so where there is one; elsewhere the taint alone keeps pods off."""
    assert reading.tolerated(created) == []
    assert reading.held(created) is stage.product.hold
    if stage.product.hold:
        assert reading.annotations(created)[keys.HELD] == (
            "Undecided: held until the reservation service answers; nothing is lost, it starts by itself"
        )
