"""What kubectl prints to people: tables, warnings, denials and descriptions, as `tests/golden/e2e` has them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from common.domain import keys
from tests.e2e import reading
from tests.e2e.golden import Zone, golden, shape
from tests.e2e.kubectl import a_booking, create, kubectl, names, tomorrow
from tests.e2e.stage import Stage

pytestmark = pytest.mark.controlplane

HOUR = timedelta(hours=1)
AGE = re.compile(r"\d+[smhd]+$", re.MULTILINE)
CLASSES = re.compile(r"classes here: [^.]*\.")


def test_kubectl_get_lists_reservations_and_classes(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    start, end = tomorrow(stage, 9), tomorrow(stage, 13)
    alice.book_ahead("sprint", 2, start, duration=None, end=reading.on_the_wire(end))
    printed = kubectl(alice, "get", "gpures,gpuc").stdout
    theirs = [line for line in printed.splitlines() if "gpuclass" not in line or f"/{stage.gpu_class} " in line]
    known = names(alice, start=reading.on_the_wire(start), end=reading.on_the_wire(end))
    assert AGE.sub("{age}", shape("\n".join(theirs), known)) == golden("get")


def test_booking_that_does_not_fit_reads_the_same_at_create_in_a_dry_run_and_in_its_condition(stage: Stage) -> None:
    stage.open(4)
    alice, bob = stage.tenant("alice"), stage.tenant("bob")
    start, busy, end, free = (tomorrow(stage, hour) for hour in (9, 11, 13, 15))
    alice.book_ahead("sprint", 2, busy, duration=None, end=reading.on_the_wire(free))
    big = a_booking(bob, "big", 4, start, end)
    dry, real = create(bob, big, "--dry-run=server"), create(bob, big)
    bob.reaches("big", "Denied")
    confirmed = reading.condition(bob.reservation("big"), "Confirmed")

    known = names(bob, day=f"{start:%Y-%m-%d}")
    assert shape(dry, known) == golden("denied-dry-run")
    assert shape(real, known) == golden("denied-create")
    assert shape(f"{confirmed['reason']}: {confirmed['message']}", known) == golden("denied-condition")


def test_limit_reads_the_same_at_create_and_in_a_dry_run(stage: Stage) -> None:
    stage.open(4, limits={"maxUnitsPerReservation": 2})
    alice = stage.tenant()
    alice.hold_open("known", units=1)
    big = a_booking(alice, "big", 3, tomorrow(stage, 9), tomorrow(stage, 13))
    for options in ((), ("--dry-run=server",)):
        assert shape(create(alice, big, *options), names(alice)) == golden("over-limit")


def test_forged_pod_is_denied_in_the_same_words_at_create_and_in_a_dry_run(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.hold_open(units=1)
    toleration = {"key": keys.TAINT, "value": stage.gpu_class, "effect": "NoSchedule"}
    forged = alice.manifest("forged", spec={"tolerations": [toleration]})
    for options in ((), ("--dry-run=server",)):
        assert shape(create(alice, forged, *options), names(alice)) == golden("forged")


def test_pod_before_its_window_reads_as_written_in_warning_annotation_condition_event_and_description(
    stage: Stage,
) -> None:
    stage.open(4)
    alice = stage.tenant()
    start = tomorrow(stage, 9)
    alice.book_ahead("sprint", 2, start, duration=timedelta(hours=4))
    warning = create(alice, alice.manifest("early"))
    told = alice.waits_for("early", "WaitingForReservation")
    event = alice.event("Pod", "early", "WaitingForReservation")

    known = names(alice, start=Zone().day(start), instant=reading.on_the_wire(start))
    assert shape(warning, known) == golden("too-early-warning")
    assert shape(reading.annotations(told)[keys.HELD], known) == golden("too-early-annotation")
    assert reading.condition(told)["message"] == event["message"] == reading.sentence(told)
    described = kubectl(alice, "describe", "pod", "early").stdout
    age = re.compile(r"\d+s(?= )")
    assert age.sub("{age}", shape(_sections(described, "Annotations", "Conditions", "Events"), known)) == golden(
        "describe"
    )


def _sections(described: str, *wanted: str) -> str:
    """Blocks of `kubectl describe` that begin with these words."""
    blocks = re.split(r"^(?=\S)", described, flags=re.MULTILINE)
    found = "".join(block for block in blocks if block.startswith(wanted))
    # A long annotation goes to a line of its own.
    return re.sub(rf"(?<={keys.HELD}:)\s+", " ", found)


def test_pod_on_a_full_booking_reads_as_written(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    now = stage.now()
    end = now.replace(minute=0, second=0) + 4 * HOUR
    alice.hold_open("sprint", units=2, duration=None, end=reading.on_the_wire(end))
    for name in ("notebook-1", "trainer-0"):
        alice.create_pod(name)
        alice.runs(name)
    alice.names_users("sprint", ["notebook-1", "trainer-0"])
    warning = create(alice, alice.manifest("third"))
    told = alice.waits_for("third", "ReservationFull")

    known = names(alice, end=Zone().clock(end, now))
    assert shape(warning, known) == golden("full-warning")
    assert shape(reading.annotations(told)[keys.HELD], known) == golden("full-annotation")
    assert reading.condition(told)["message"] == reading.sentence(told)
    assert alice.event("Pod", "third", "ReservationFull")["message"] == reading.sentence(told)


def test_pod_without_a_booking_reads_what_its_namespace_has_instead(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    other = stage.add_class(f"a100-of-{stage.gpu_class}")
    stage.add_node(2, gpu_class=other)
    alice.book("lab", gpuClass=other, start=tomorrow(stage, 9))
    alice.reaches("lab", "Confirmed")
    # Every webhook that knows of this one's end knows "lab".
    alice.book_ahead("known", 1, tomorrow(stage, 9))
    alice.forgets("known")
    warning = create(alice, alice.manifest("trainer-0"))
    told = alice.waits_for("trainer-0", "NoReservation")
    known = names(alice, other=other)
    assert shape(warning, known) == golden("nothing-booked-warning")
    assert shape(reading.annotations(told)[keys.HELD], known) == golden("nothing-booked-annotation")
    assert alice.event("Pod", "trainer-0", "NoReservation")["message"] == reading.sentence(told)


def test_pod_of_a_class_that_does_not_exist_reads_which_one_was_meant(stage: Stage) -> None:
    stage.open(4)
    alice = stage.tenant()
    alice.hold_open(units=1)
    typo = stage.gpu_class.replace("h100", "hl00")
    warning = create(alice, alice.manifest("trainer-0", gpu_class=typo))
    event = alice.event("Pod", "trainer-0", "UnknownGpuClass")
    known = names(alice, typo=typo)
    assert CLASSES.sub("classes here: {classes}.", shape(warning, known)) == golden("typo-warning")
    assert CLASSES.sub("classes here: {classes}.", shape(event["message"], known)) == golden("typo-event")
