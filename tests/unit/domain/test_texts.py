"""Building blocks of sentences: spans, instants in zones, names, and what is cut."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest

from common.domain import texts
from common.domain.texts import Display
from common.domain.time import Window
from tests.support.builders import NINE, a_reservation, at, granted, window

BERLIN = Display(ZoneInfo("Europe/Berlin"))
UTC_DISPLAY = Display()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (45, "45s"),
        (60, "1m"),
        (5400, "90m"),
        (14400, "4h"),
        (86400, "24h"),
        (172800, "2d"),
        (90061, "90061s"),
    ],
)
def test_a_span_is_written_in_the_largest_unit_that_loses_nothing(seconds: int, text: str) -> None:
    assert texts.span(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "in 0 s"),
        (119.4, "in 119 s"),
        (119.6, "in 2 min"),
        (7100, "in 118 min"),
        (14 * 3600, "in 14 h"),
        (10 * 86400, "in 10 d"),
    ],
)
def test_relative_time_is_rounded_to_what_people_care_about(seconds: float, text: str) -> None:
    assert texts.in_time(timedelta(seconds=seconds)) == text


def test_an_instant_names_its_zone() -> None:
    assert UTC_DISPLAY.instant(NINE) == "2026-12-01 09:00 UTC"
    assert BERLIN.instant(NINE) == "2026-12-01 10:00 CET"


def test_seconds_are_shown_only_where_there_are_any() -> None:
    assert UTC_DISPLAY.instant(at(9, 0, 5)) == "2026-12-01 09:00:05 UTC"


def test_a_date_is_left_out_on_the_same_day_of_the_display_zone() -> None:
    late = at(23, 30)
    assert UTC_DISPLAY.instant(late, same_day_as=NINE) == "23:30 UTC"
    assert BERLIN.instant(late, same_day_as=NINE) == "2026-12-02 00:30 CET"


def test_a_window_prints_the_end_with_its_date_when_that_is_another_day() -> None:
    assert UTC_DISPLAY.window(window(9, 13)) == "2026-12-01 09:00–13:00 UTC"
    assert UTC_DISPLAY.window(window(9, 33)) == "2026-12-01 09:00–2026-12-02 09:00 UTC"


def test_a_window_over_a_change_of_clocks_prints_both_zones() -> None:
    back = Window(datetime(2026, 10, 24, 23, tzinfo=UTC), datetime(2026, 10, 25, 9, tzinfo=UTC))
    assert BERLIN.window(back) == "2026-10-25 01:00 CEST–10:00 CET"
    assert BERLIN.clock(back.start, back) == "01:00 CEST"
    assert BERLIN.clock(back.end, back) == "10:00"


@pytest.mark.parametrize("zone", [ZoneInfo("Europe/Berlin"), timezone(timedelta(hours=-14))])
def test_the_ends_of_the_calendar_can_be_shown(zone: tzinfo) -> None:
    display = Display(zone)
    assert display.instant(datetime.max.replace(tzinfo=UTC)).startswith("9999-12-31 ")
    assert display.instant(datetime.min.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    ("items", "others", "text"),
    [
        ([], 0, ""),
        (["a"], 0, "a"),
        (["a", "b"], 0, "a and b"),
        (["a", "b", "c"], 0, "a, b and c"),
        (["a", "b", "c", "d"], 0, "a, b, c and 1 other"),
        (["a", "b", "c"], 2, "a, b, c and 2 others"),
        ([], 2, "2 others"),
    ],
)
def test_at_most_three_names_are_listed(items: list[str], others: int, text: str) -> None:
    assert texts.names(items, others) == text


def test_control_characters_never_reach_a_terminal() -> None:
    assert texts.clip("a\x1b[31mb\nc", 64) == "a?[31mb?c"


def test_what_is_cut_ends_in_an_ellipsis() -> None:
    assert texts.clip("abcdef", 4) == "abc…"
    assert texts.clip("abcd", 4) == "abcd"


def test_a_warning_stays_under_240_characters() -> None:
    warning = texts.held_warning("NoReservation", "x" * 500, None, NINE)
    assert len(warning) == texts.WARNING_LIMIT


def test_only_the_sentence_about_an_opening_gets_the_relative_time() -> None:
    sprint = a_reservation()
    until = at(23)
    opens = texts.opens(sprint, "h100", window(23, 27), 2, UTC_DISPLAY)
    full = texts.full(replace(sprint, claims={}), "h100", granted(), 3, UTC_DISPLAY)
    assert ", in 14 h; the pod starts" in texts.held_warning("WaitingForReservation", opens, until, NINE)
    assert " in " not in texts.held_warning("ReservationFull", full, at(13), NINE)


def test_a_full_reservation_says_how_much_is_free_and_what_the_pod_asks() -> None:
    partly = a_reservation(units=4, claims={"1-3-x": 3})
    said = texts.full(partly, "h100", granted(4), 2, UTC_DISPLAY)
    assert "sprint holds 4 h100, 1 of them free, and the pod asks 2" in said


def test_a_full_reservation_counts_the_holders_that_it_does_not_name() -> None:
    full = a_reservation(claims={"1-2-x": 2}, used_by=("a", "b", "c", "+2"))
    assert "all used by your pods a, b, c and 2 others;" in texts.full(full, "h100", granted(), 1, UTC_DISPLAY)


def test_a_full_reservation_whose_holders_are_unknown_names_nobody() -> None:
    full = a_reservation(claims={"1-2-x": 2})
    assert "all used; starts" in texts.full(full, "h100", granted(), 1, UTC_DISPLAY)


def test_one_holder_is_one_pod() -> None:
    full = a_reservation(claims={"1-2-x": 2}, used_by=("a",))
    assert "by your pod a;" in texts.full(full, "h100", granted(), 1, UTC_DISPLAY)


def test_a_reservation_taken_back_in_its_window_says_what_happens_to_its_pods() -> None:
    lazy = texts.ended_early(a_reservation(), 1)
    assert lazy == "sprint ended: 1 pod runs on without guarantee and may be stopped when others need the GPUs"


def test_an_unknown_class_far_from_all_others_gets_no_guess() -> None:
    assert texts.unknown_class("gtx", ["h100", "a100"]).startswith('no class "gtx"; classes here: a100, h100. Fix')


def test_where_there_are_no_classes_the_sentence_says_so() -> None:
    assert texts.unknown_class("gtx", []).startswith('no class "gtx"; there are no classes here.')


def test_two_displays_print_the_same_instants_in_different_zones() -> None:
    tokyo = Display(ZoneInfo("Asia/Tokyo"))
    printed = [
        datetime.strptime(text.rsplit(" ", 1)[0] + offset, "%Y-%m-%d %H:%M%z")
        for text, offset in ((tokyo.instant(NINE), "+0900"), (BERLIN.instant(NINE), "+0100"))
    ]
    assert printed == [NINE, NINE]
