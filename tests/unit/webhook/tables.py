"""Reads the tables of docs/reference/webhook.md: what stands there is what the tests check."""

from pathlib import Path
from typing import NamedTuple

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "webhook.md"


class Row(NamedTuple):
    what: str
    answer: str
    note: str


def rows(section: str) -> dict[str, Row]:
    """The table under a heading, by its first column."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")][2:]
    cells = [Row(*(cell.strip() for cell in line.strip("|").split("|"))) for line in lines]
    return {row.what: row for row in cells}
