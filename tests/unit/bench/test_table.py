"""Tables say what was measured, against what, and under which conditions."""

from __future__ import annotations

import io

import msgspec
import pytest
from rich.console import Console

from tests.bench import store, table
from tests.bench.figures import Absolute, Bound, Figure, Machine, Outcome, Report, Verdict, absolute, figure
from tests.bench.scene import in_turns


def report(load: float = 0.4) -> Report:
    ours = absolute("ours", [200.0, 210.0, 230.0], "µs")
    rows = [
        figure("decisions", "CPU ÷ constant", [1.2, 1.3, 1.4], at_most=1.38, absolutes=[ours]),
        figure("decisions", "times less | CPU", [6.0], at_least=8.0, note="as tutorials have it"),
        figure("decisions", "CPU ÷ small Go", [1.5, 1.7]),
    ]
    outcomes = [Outcome("decisions", rows, ["cpu.txt"], took_s=3.0), Outcome("burst", problem="TimeoutError: no")]
    return Report(
        "2026-12-01 09:00 UTC", "abc1234", False, Machine(2, "EPYC", "Linux 6", "3.11.7", (load, 0.9)), outcomes
    )


def drawn(found: Report) -> str:
    console = Console(width=140, file=io.StringIO(), record=True, color_system=None)
    for part in table.terminal(found):
        console.print(part)
    return console.export_text()


@pytest.mark.parametrize(
    ("value", "bound", "verdict"),
    [
        (1.0, Bound.AT_MOST, Verdict.MET),
        (1.1, Bound.AT_MOST, Verdict.MISSED),
        (1.0, Bound.AT_LEAST, Verdict.MET),
        (0.9, Bound.AT_LEAST, Verdict.MISSED),
        (9.0, Bound.NONE, Verdict.NONE),
    ],
)
def test_verdict(value: float, bound: Bound, verdict: Verdict) -> None:
    target = None if bound is Bound.NONE else 1.0
    assert Figure("b", "n", value, "×", 1, None, bound, target).verdict is verdict


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (12345.6, "12,346"),
        (220.4, "220"),
        (45.67, "45.7"),
        (1.378, "1.38"),
        (0.95, "0.95"),
        (0.0512, "0.051"),
        (-3.21, "-3.21"),
        (1.0, "1"),
        (0.0, "0"),
    ],
)
def test_numbers_have_three_digits(value: float, expected: str) -> None:
    assert table.number(value) == expected


def test_terminal_shows_every_figure_with_its_target_and_what_failed() -> None:
    text = drawn(report())
    assert "CPU ÷ constant" in text
    assert "1.30 ×" in text
    assert "≤ 1.38 ×" in text
    assert "ours 210 µs ± 7%" in text
    assert "MISSED" in text
    assert "profile: cpu.txt" in text
    assert "burst: not measured: TimeoutError: no" in text
    assert "1 met, 1 missed, 1 without a target; could not be measured: burst" in text


def test_markdown_rows_have_as_many_cells_as_the_head() -> None:
    rows = [line for line in table.markdown(report()).splitlines() if line.startswith("|")]
    assert len(rows) == 5
    assert {row.replace("\\|", "").count("|") for row in rows} == {len(table.COLUMNS) + 1}


def test_a_busy_machine_and_a_quick_run_are_told() -> None:
    assert "busy" not in table.heading(report())
    assert "load 7.5 before (busy: more than 2), 0.9 after" in table.heading(report(7.5))
    assert "quick run" in table.heading(msgspec.structs.replace(report(), quick=True))


def test_a_report_survives_its_file() -> None:
    found = report()
    read = msgspec.json.decode(msgspec.json.encode(found), type=Report)
    assert table.markdown(read) == table.markdown(found)
    assert not read.complete


def test_the_table_is_put_between_its_marks_and_again() -> None:
    document = f"before\n{store.BEGIN}\nold\n{store.END}\nafter\n"
    once = store.with_table(document, "new")
    assert once == f"before\n{store.BEGIN}\n\nnew\n\n{store.END}\nafter\n"
    assert store.with_table(once, "new") == once
    with pytest.raises(ValueError, match="has no"):
        store.with_table("no marks", "new")


def test_the_document_has_the_marks() -> None:
    store.with_table(store.DOCUMENT.read_text(), "")


def test_rounds_go_there_and_back() -> None:
    assert [name for _, name in in_turns(("a", "b"), 3)] == ["a", "b", "b", "a", "a", "b"]


def test_absolutes_of_one_round_have_no_spread() -> None:
    assert absolute("once", [3.0], "s") == Absolute("once", 3.0, "s", None)
    assert table.beside([absolute("once", [3.0], "s")]) == "once 3 s"
