"""Quantities and durations."""

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.adapters.wire import duration, encode_duration, quantity
from common.domain.errors import MalformedObject


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("8", Decimal(8)),
        ("0", Decimal(0)),
        ("500m", Decimal("0.5")),
        ("1k", Decimal(1000)),
        ("1Gi", Decimal(2**30)),
        ("1.5", Decimal("1.5")),
        ("1e3", Decimal(1000)),
        ("1e999999", Decimal(2**63 - 1)),
        ("9" * 64, Decimal(2**63 - 1)),
        (2, Decimal(2)),
        (0.5, Decimal("0.5")),
    ],
)
def test_quantity(text: str | float, value: Decimal) -> None:
    assert quantity(text) == value


@pytest.mark.parametrize("text", ["", "-1", "-500m", "x", "1Xi", "NaN", "Infinity", "1_000", " 1", "9" * 65, "1e", "٣"])
def test_no_quantity(text: str) -> None:
    with pytest.raises(MalformedObject, match="is not a quantity"):
        quantity(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4h", timedelta(hours=4)),
        ("1h30m", timedelta(minutes=90)),
        ("90s", timedelta(seconds=90)),
        ("500ms", timedelta(milliseconds=500)),
        ("1.5h", timedelta(minutes=90)),
        ("0", timedelta()),
        ("0s", timedelta()),
        ("168h", timedelta(days=7)),
    ],
)
def test_duration(text: str, value: timedelta) -> None:
    assert duration(text) == value


@pytest.mark.parametrize(
    "text", ["", "4", "h", "-4h", "4d", "4 h", "4h ", "1h-30m", "9" * 40 + "h", "9" * 65 + "h", "PT4H"]
)
def test_no_duration(text: str) -> None:
    with pytest.raises(MalformedObject, match="is not a duration"):
        duration(text)


@given(st.timedeltas(min_value=timedelta(), max_value=timedelta(days=400)))
def test_a_duration_reads_back(span: timedelta) -> None:
    assert duration(encode_duration(span)) == span
