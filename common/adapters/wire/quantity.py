"""Kubernetes quantities and Go durations."""

import re
from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal, DecimalException
from functools import lru_cache
from sys import intern
from typing import Final

from common.domain.errors import MalformedObject

Quantity = str | int | float
"""What JSON may hold; the API server itself writes strings."""

_LONGEST = 64
_MOST: Final = Decimal(2**63 - 1)
"""Kubernetes caps quantities here; without a cap `1e999999` would become an integer of a million digits."""
_LEFT_TO_DECIMAL: Final = frozenset("_ \t\n\r\v\f")
"""Characters that Decimal takes and Kubernetes does not, as in `1_000`."""
_PART: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_WHOLE: Final = re.compile(rf"(?:{_PART.pattern})+")
_UNITS: Final = {
    "ns": Decimal("0.001"),
    "us": Decimal(1),
    "µs": Decimal(1),
    "μs": Decimal(1),
    "ms": Decimal(1000),
    "s": Decimal(1_000_000),
    "m": Decimal(60_000_000),
    "h": Decimal(3_600_000_000),
}


@lru_cache(maxsize=4096)
def quantity(text: Quantity) -> Decimal:
    """`8`, `500m`, `1Gi`, `1e3`; raises MalformedObject for what is negative or no quantity."""
    if isinstance(text, str) and text.isascii() and text.isdigit() and len(text) <= _LONGEST:
        return min(Decimal(text), _MOST)
    value = _parsed(text)
    if value is None or not value.is_finite() or value < 0:
        msg = f"{str(text)[:_LONGEST]!r} is not a quantity of zero or more"
        raise MalformedObject(msg)
    return min(value, _MOST)


def quantities(mapping: Mapping[str, Quantity] | None) -> dict[str, Decimal]:
    """Each value parsed, each resource name interned."""
    return {intern(resource): quantity(text) for resource, text in mapping.items()} if mapping else {}


def duration(text: str) -> timedelta:
    """`4h`, `1h30m`, `90s`, `500ms`, `0`; raises MalformedObject for anything else, negative ones among it."""
    if text == "0":
        return timedelta()
    if len(text) <= _LONGEST and _WHOLE.fullmatch(text):
        try:
            microseconds = sum((Decimal(number) * _UNITS[unit] for number, unit in _PART.findall(text)), Decimal())
            return timedelta(microseconds=int(microseconds))
        except OverflowError:
            pass
    msg = f"{text[:_LONGEST]!r} is not a duration such as 4h, 1h30m or 90s"
    raise MalformedObject(msg)


def encode_duration(span: timedelta) -> str:
    """The shortest that reads back as the same: `4h`, `1h30m`, `90s` as `1m30s`."""
    seconds, micro = divmod(span // timedelta(microseconds=1), 1_000_000)
    hours, minutes, seconds = seconds // 3600, seconds // 60 % 60, seconds % 60
    parts = [(hours, "h"), (minutes, "m"), (seconds, "s"), (micro, "us")]
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"


def _parsed(text: Quantity) -> Decimal | None:
    # Imported at the first quantity that needs it: the official client's package takes half a second to import.
    from kubernetes.utils.quantity import parse_quantity  # noqa: PLC0415

    if isinstance(text, str) and (len(text) > _LONGEST or not text.isascii() or set(text) & _LEFT_TO_DECIMAL):
        return None
    try:
        value: Decimal = parse_quantity(text)  # type: ignore[no-untyped-call]
    except (ValueError, DecimalException):
        return None
    return value
