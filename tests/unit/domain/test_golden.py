"""The sentences that people read, compared whole with `tests/golden`.

What the domain has no part in (kubectl's columns, Events of the reconciler) is compared end to end.
"""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from common.domain import confirmation, reservation_status, routing, texts
from common.domain.gpu_class import ClassUnits
from common.domain.reasons import Hold, Reason
from common.domain.reservation import Condition, Phase, Reservation, Wish
from common.domain.routing import Ask
from common.domain.texts import Display
from common.domain.time import Instant
from tests.support.builders import HOUR, NINE, a_class, a_reservation, at, granted

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden"
CLASS = a_class()
ONE_POD = Ask("alice", "h100", 1, {})


def golden(name: str) -> str:
    return (GOLDEN / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")


def routed(*mine: Reservation, now: Instant = NINE) -> Hold:
    hold = routing.route(ONE_POD, CLASS, mine, now, 8, Display())
    assert isinstance(hold, Hold)
    return hold


def warning(hold: Hold, now: Instant = NINE) -> str:
    return texts.held_warning(hold.reason, hold.sentence, hold.until, now)


def denial(display: Display) -> str:
    asking = a_reservation(phase=Phase.PENDING, units=4)
    other = a_reservation("other", "bob", units=2, start=11, end=15)
    return confirmation.judge(asking, CLASS, [other], 4, NINE, display).message


def booked() -> str:
    asking = a_reservation(phase=Phase.PENDING)
    return confirmation.judge(asking, CLASS, [], 4, NINE, Display()).message


def too_early_warning() -> str:
    return warning(routed(a_reservation(), now=NINE - 14 * HOUR), NINE - 14 * HOUR)


def too_early_annotation() -> str:
    return routed(a_reservation(), now=NINE - 14 * HOUR).annotation


def full() -> str:
    return warning(routed(a_reservation(claims={"1-2-x": 2}, used_by=("trainer-0", "notebook-1"))))


def typo() -> str:
    return Hold(Reason.UNKNOWN_GPU_CLASS, texts.unknown_class("hl00", ["h100", "a100"])).annotation


def nothing_booked() -> str:
    return warning(routed(a_reservation("lab", gpu_class="a100")))


def at_risk() -> str:
    before = Condition("AtRisk", "True", "AtRisk", "", at(8, 41))
    active = a_reservation(units=4, phase=Phase.ACTIVE, conditions=(before,))
    short = a_class(units=ClassUnits(physical=8, schedulable=2, reserved=4))
    found = reservation_status.at_risk(active, short, NINE, Display())
    assert found is not None
    return f"{found.reason}: {found.message}"


def extension_refused() -> str:
    wish = Wish("h100", 2, at(9), at(20))
    asking = replace(a_reservation(phase=Phase.ACTIVE, generation=2), wish=wish)
    other = a_reservation("other", "bob", units=4, start=18, end=22)
    return confirmation.judge_change(asking, granted(), CLASS, [other], 4, NINE, Display()).message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("booked", booked()),
        ("denied", denial(Display())),
        ("denied-berlin", denial(Display(ZoneInfo("Europe/Berlin")))),
        ("too-early-warning", too_early_warning()),
        ("too-early-annotation", too_early_annotation()),
        ("full", full()),
        ("typo", typo()),
        ("nothing-booked", nothing_booked()),
        ("at-risk", at_risk()),
        ("extension-refused", extension_refused()),
        ("active-booking-deleted", texts.ended_early(a_reservation(), 2)),
    ],
)
def test_the_sentence_reads_as_its_golden_file(name: str, said: str) -> None:
    assert said == golden(name)


def test_the_hold_policy_writes_its_golden_sentence() -> None:
    policy = (ROOT / "deploy" / "policies" / "hold.yaml").read_text(encoding="utf-8")
    assert golden("all-of-us-down") in policy


def test_every_golden_warning_stays_under_its_limit() -> None:
    assert all(len(golden(path.stem)) < texts.WARNING_LIMIT for path in GOLDEN.glob("*.txt"))


def test_relative_time_is_in_the_warning_only() -> None:
    later = warning(routed(a_reservation(), now=NINE - timedelta(minutes=30)), NINE - timedelta(minutes=30))
    assert later == golden("too-early-warning").replace("in 14 h", "in 30 min")
