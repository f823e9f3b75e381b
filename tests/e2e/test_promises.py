"""What holders read when their promise grows, cannot grow, is at risk or is given back; `tests/golden/e2e` again."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.golden import Zone, golden, shape
from tests.e2e.kubectl import kubectl, names, tomorrow
from tests.e2e.stage import DEADLINE_S, RESERVATIONS, Stage, Tenant

pytestmark = pytest.mark.controlplane

SINCE = re.compile(r"since \d\d:\d\d:\d\d UTC|since \d\d:\d\d UTC")


def test_extension_is_told_and_one_that_does_not_fit_leaves_the_promise(stage: Stage) -> None:
    stage.open(4)
    alice, bob = stage.tenant("alice"), stage.tenant("bob")
    start, end, longer, busy, late = (tomorrow(stage, hour) for hour in (9, 13, 17, 18, 20))
    alice.book_ahead("sprint", 2, start, duration=None, end=reading.on_the_wire(end))
    bob.book_ahead("big", 4, busy, duration=timedelta(hours=4))

    warned = kubectl(alice, "patch", "gpures", "sprint", "--type=merge", _until(late)).stderr
    until(lambda: _applied(alice).get("status") == "False", DEADLINE_S, "the extension is refused")
    refused = _applied(alice)
    assert alice.reservation()["status"]["granted"]["end"] == reading.on_the_wire(end)
    assert shape(warned, names(alice)) == golden("extension-refused-warning")
    assert shape(refused["message"], names(alice)) == golden("extension-refused")

    assert kubectl(alice, "patch", "gpures", "sprint", "--type=merge", _until(longer)).stderr == ""
    note = alice.event("GPUReservation", "sprint", "Extended")["message"]
    assert shape(note, names(alice, end=Zone().day(longer))) == golden("extended")
    assert alice.reservation()["status"]["granted"]["end"] == reading.on_the_wire(longer)


def _until(end: object) -> str:
    return f'--patch={{"spec":{{"end":"{end:%Y-%m-%dT%H:%M:%SZ}"}}}}'


def _applied(tenant: Tenant) -> dict[str, str]:
    return reading.condition(tenant.reservation(), "Applied")


@pytest.mark.usefixtures("stand_in_nodes")
def test_holders_are_told_when_nodes_fail_under_their_booking_and_when_they_are_back(stage: Stage) -> None:
    stage.open(2, 2)
    alice = stage.tenant()
    alice.hold_open(units=4)
    stage.cluster.nodes.set_ready(stage.nodes[0], ready=False)
    until(lambda: _risk(alice).get("status") == "True", DEADLINE_S, "the booking is at risk")
    told, event = _risk(alice), alice.event("GPUReservation", "sprint", "AtRisk")
    assert alice.reservation()["status"]["reason"] == "AtRisk"
    assert SINCE.sub("since {clock}", shape(f"AtRisk: {told['message']}", names(alice))) == golden("at-risk")
    assert event["message"] == told["message"]
    assert event["type"] == "Warning"

    assert reading.reason(alice.create_pod("big", gpus=4).object) == "WaitingForUnits"
    stage.cluster.nodes.set_ready(stage.nodes[0], ready=True)
    until(lambda: _risk(alice).get("status") == "False", DEADLINE_S, "the booking is safe again")
    assert alice.reservation()["status"]["reason"] == "Fits"


def _risk(tenant: Tenant) -> dict[str, str]:
    return reading.condition(tenant.reservation(), "AtRisk")


@pytest.mark.parametrize("way", ["delete", "cancel"])
def test_who_gives_an_active_booking_back_is_warned_of_the_pods_that_use_it(stage: Stage, way: str) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.hold_open(units=2)
    for name in ("trainer-0", "trainer-1"):
        alice.create_pod(name)
        alice.runs(name)
    alice.names_users("sprint", ["trainer-0", "trainer-1"])
    command = {
        "delete": ("delete", "gpures", "sprint"),
        "cancel": ("patch", "gpures", "sprint", "--type=merge", '--patch={"spec":{"cancel":true}}'),
    }
    assert shape(kubectl(alice, *command[way]).stderr, names(alice)) == golden("active-booking-ended")
    gone = {"delete": "gone", "cancel": "Canceled"}[way]
    until(
        lambda: reading.phase(stage.admin.find(RESERVATIONS, "sprint", alice.namespace)) == gone, DEADLINE_S, "it ends"
    )
    assert {reading.phase(pod) for pod in alice.pods()} == {"Running"}
