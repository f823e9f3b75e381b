"""A report as a table: for a terminal, and in Markdown for docs/reference/performance.md; pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tests.bench.figures import Absolute, Bound, Figure, Report, Verdict

COLUMNS = ("Figure", "Value", "Spread", "Target", "Verdict", "Absolute values of this run")
STYLES = {Verdict.MET: "green", Verdict.MISSED: "bold red", Verdict.NONE: ""}


def number(value: float) -> str:
    """Three significant digits, without an exponent."""
    size = abs(value)
    if size >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if size >= 10 else f"{value:.2f}" if size >= 0.1 else f"{value:.3f}"


def quantity(value: float, unit: str) -> str:
    return f"{number(value)} {unit}" if unit else number(value)


def share(value: float | None) -> str:
    return "" if value is None else f"± {value:.0%}"


def wanted(figure: Figure) -> str:
    if figure.bound is Bound.NONE or figure.target is None:
        return ""
    return f"{figure.bound} {quantity(figure.target, figure.unit)}"


def beside(absolutes: Sequence[Absolute]) -> str:
    told = (f"{a.label} {quantity(a.value, a.unit)} {share(a.spread)}".rstrip() for a in absolutes)
    return ", ".join(told)


def cells(figure: Figure) -> Sequence[str]:
    absolute = beside(figure.absolutes)
    last = f"{absolute}; {figure.note}" if absolute and figure.note else absolute or figure.note
    value = quantity(figure.value, figure.unit)
    return (figure.name, value, share(figure.spread), wanted(figure), str(figure.verdict), last)


def heading(report: Report) -> str:
    """What has to be known before a figure is believed."""
    before, after = report.machine.load
    kind = "quick run, too small to conclude from" if report.quick else "full run"
    busy = f" (busy: more than {report.machine.cpus})" if before > report.machine.cpus else ""
    return (
        f"{report.date}, commit {report.commit}, {kind}; {report.machine.cpus} CPUs ({report.machine.model}), "
        f"{report.machine.system}, Python {report.machine.python}; load {before:.1f} before{busy}, {after:.1f} after"
    )


def conclusion(report: Report) -> str:
    """One line for people in a hurry."""
    found = [figure.verdict for outcome in report.outcomes for figure in outcome.figures]
    failed = [outcome.bench for outcome in report.outcomes if outcome.problem]
    met, missed = found.count(Verdict.MET), found.count(Verdict.MISSED)
    text = f"{met} met, {missed} missed, {found.count(Verdict.NONE)} without a target"
    return f"{text}; could not be measured: {', '.join(failed)}" if failed else text


def terminal(report: Report) -> Iterator[RenderableType]:
    """One table a benchmark."""
    yield Text(heading(report), style="dim")
    for outcome in report.outcomes:
        if outcome.problem:
            yield Text(f"{outcome.bench}: not measured: {outcome.problem}", style="bold red")
            continue
        table = Table(*COLUMNS[:-1], title=outcome.bench, title_justify="left", box=box.SIMPLE, pad_edge=False)
        for figure in outcome.figures:
            name, *others, last = cells(figure)
            told = Text.assemble(name, ("\n  " + last if last else "", "dim"))
            table.add_row(told, *others, style=STYLES[figure.verdict])
        yield table
        for profile in outcome.profiles:
            yield Text(f"profile: {profile}")
    yield Text(conclusion(report))


def markdown(report: Report) -> str:
    """The same as text that can be checked in."""
    lines = [heading(report) + ".", ""]
    for outcome in report.outcomes:
        lines += [f"**{outcome.bench}**", ""]
        if outcome.problem:
            lines += [f"not measured: {_escaped(outcome.problem)}", ""]
            continue
        lines += [_row(COLUMNS), _row(["---"] * len(COLUMNS))]
        lines += [_row([_escaped(cell) for cell in cells(figure)]) for figure in outcome.figures]
        lines.append("")
    return "\n".join([*lines, conclusion(report) + "."])


def _row(texts: Sequence[str]) -> str:
    return f"| {' | '.join(texts)} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
