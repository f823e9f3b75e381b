"""The page of what was tested: a run takes the row of its kind of cluster and leaves the others."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from tests.kind.report import About, Ended, Outcomes, write

KIND = About("v1.37.2", "kind, 2 nodes", "2026-11-30 09:00", "abc as committed")
PLAIN = About("v1.37.2", "plain control plane", "2026-11-30 10:00", "abc as committed")


def outcomes(outcome: str = "passed") -> Outcomes:
    reason = "needs the audit log" if outcome == "skipped" else ""
    found = Ended("e2e", "test_windows.py", "a pod waits", outcome, 2.0, "", reason)
    return Outcomes(
        {"id": found, "other": Ended("kind", "test_kubelet.py", "a pod goes", "passed", 6.0, "6 seconds", "")}
    )


def test_a_newer_run_on_the_same_kind_of_cluster_takes_its_row(tmp_path: Path) -> None:
    page = tmp_path / "tested-on.md"
    write(KIND, outcomes("failed"), page)
    write(KIND, outcomes(), page)
    rows = [line for line in page.read_text().splitlines() if line.startswith("| v1")]
    assert rows == [KIND.row("2 passed in 0 s")]


def test_a_run_on_another_kind_of_cluster_leaves_what_was_told_of_kind(tmp_path: Path) -> None:
    page = tmp_path / "tested-on.md"
    write(KIND, outcomes("skipped"), page)
    told = page.read_text().partition("## The newest run")[2]
    write(PLAIN, outcomes(), page, details=False)
    assert PLAIN.row("2 passed in 0 s") in page.read_text()
    assert page.read_text().partition("## The newest run")[2] == told
    assert "| a pod goes | passed | 6 | 6 seconds |" in told
    assert "| windows | 0 | 0 | 1 | 2 |" in told
    assert "- needs the audit log: 1" in told


def test_a_run_that_left_tests_out_is_not_whole() -> None:
    run = outcomes()
    assert "left out" not in run.sentence()
    run.pytest_deselected([cast("pytest.Item", object())])
    assert not run.whole
    assert "1 left out of a short run" in run.sentence()
