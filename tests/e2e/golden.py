"""Compares what people read with the files of `tests/golden/e2e`, where names and instants are placeholders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "e2e"
ELAPSED = re.compile(r"\bin \d+ (s|min|h|d)\b")


def golden(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text().rstrip("\n")


def shape(text: str, known: Mapping[str, str]) -> str:
    """Known names and instants as `{placeholder}`, a waiting time as `in {wait}`, columns three blanks apart."""
    for placeholder, value in sorted(known.items(), key=lambda item: -len(item[1])):
        text = text.replace(value, f"{{{placeholder}}}")
    lines = (re.sub(r"(?<=\S) {2,}", "   ", line).rstrip() for line in ELAPSED.sub("in {wait}", text).splitlines())
    return "\n".join(lines)


@dataclass(frozen=True)
class Zone:
    """How people of one time zone read instants."""

    zone: tzinfo = UTC

    def day(self, moment: datetime) -> str:
        """2026-12-01 09:00 UTC, with the seconds where there are any."""
        local = moment.astimezone(self.zone)
        return local.strftime("%Y-%m-%d %H:%M:%S %Z" if local.second else "%Y-%m-%d %H:%M %Z")

    def clock(self, moment: datetime, day: datetime) -> str:
        """Without the date on the day of another instant: 13:00 UTC."""
        same = moment.astimezone(self.zone).date() == day.astimezone(self.zone).date()
        return self.day(moment).partition(" ")[2] if same else self.day(moment)
