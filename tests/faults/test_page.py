"""The page of faults: a run renews the rows of its faults and leaves the others as they were."""

from __future__ import annotations

from tests.faults.report import Run, page
from tests.faults.runner import Outcome
from tests.faults.table import by_id

FIRST, SECOND = Run("2026-11-30 09:00", "abc", "full"), Run("2026-11-30 10:00", "def", "brief")


def outcome(name: str, *, held: bool) -> Outcome:
    (fault,) = by_id([name])
    return Outcome(fault, held, 1.5, 0.2, 10, 20, 0.4, notes=[f"told of {name}"])


def test_a_run_of_some_faults_renews_their_rows_alone() -> None:
    first = {name: outcome(name, held=False) for name in ("F1", "F15")}
    before = page(first, FIRST)
    after = page({"F15": outcome("F15", held=True)}, SECOND, before)
    rows = {line.split()[1]: line for line in after.splitlines() if line.startswith("| F")}
    assert str(FIRST) in rows["F1"]
    assert "**no**" in rows["F1"]
    assert str(SECOND) in rows["F15"]
    assert "| yes |" in rows["F15"]
    assert "| not run |" in rows["F25"]
    assert "2 faults of 42 run, 1 held" in after
    assert after.count("told of F1;") == after.count("told of F15;") == 1


def test_a_run_that_is_repeated_changes_nothing() -> None:
    once = page({"F1": outcome("F1", held=True)}, FIRST)
    assert page({"F1": outcome("F1", held=True)}, FIRST, once) == once
