"""Instants are the same however they are written, and read back as they were stored."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from common.domain import texts, tokens
from common.domain.time import Instant, Window, after, format_instant, parse_instant
from tests.property.profile import CALM

ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu")

instants = st.datetimes(datetime(1970, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))  # noqa: DTZ001 - bounds
near = instants.filter(lambda instant: instant.year < 5000)
offsets = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@CALM
@given(instants)
def test_what_is_stored_reads_back_to_the_second(instant: Instant) -> None:
    assert parse_instant(format_instant(instant)) == instant.replace(microsecond=0)
    assert format_instant(parse_instant(format_instant(instant))) == format_instant(instant)


@CALM
@given(instants, offsets)
def test_the_offset_in_which_an_instant_is_written_changes_nothing(instant: Instant, offset: timezone) -> None:
    assert parse_instant(instant.astimezone(offset).isoformat()) == instant
    assert format_instant(instant.astimezone(offset)) == format_instant(instant)


@CALM
@given(instants, st.sampled_from(ZONES))
def test_every_zone_can_show_every_instant(instant: Instant, zone: str) -> None:
    display = texts.Display(ZoneInfo(zone))
    shown = display.instant(instant)
    local = instant.astimezone(ZoneInfo(zone))
    assert shown.startswith(f"{local:%Y-%m-%d %H:%M}")
    assert shown.endswith(f" {local.tzname()}")


@CALM
@given(instants, st.timedeltas(timedelta(), timedelta.max))
def test_a_sum_never_stops_anybody(instant: Instant, duration: timedelta) -> None:
    assert Window(instant, after(instant, duration)).duration <= duration


@CALM
@given(near, st.integers(0, 10**6), st.text("0123456789abcdef-", min_size=1, max_size=40))
def test_tokens_read_back(instant: Instant, units: int, rest: str) -> None:
    parts = tokens.parse(tokens.mint(instant, units, rest))
    assert parts == tokens.TokenParts(instant.replace(microsecond=0), units, rest)


@CALM
@given(st.text(max_size=30))
def test_no_text_stops_the_reading_of_tokens(text: str) -> None:
    parts = tokens.parse(text)
    assert parts is None or parts.units >= 0
