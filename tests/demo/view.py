"""Draws a snapshot for a terminal; pure. Each colour goes with a word or a shape that says the same."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tests.demo.calendar_view import calendar
from tests.demo.model import ClassRow, Line, Part, PodRow, Snapshot, State, Topic
from tests.demo.proofs import Verdict

STORY_ROWS = 4
LEAST_WIDTH, LEAST_HEIGHT = 80, 24
BORDER = 2
MARKS = {
    State.HELD: ("‖", "yellow"),
    State.STUCK: ("!", "magenta"),
    State.LET_IN: ("»", "cyan"),
    State.RUNNING: ("▶", "green"),
    State.DONE: ("✓", "bright_black"),
}
COLOURS = {
    Topic.STEP: "bold",
    Topic.USER: "cyan",
    Topic.POD: "green",
    Topic.RESERVATION: "blue",
    Topic.PART: "red",
}


def draw(snapshot: Snapshot, width: int, height: int) -> RenderableType:
    """Fill a terminal of this size."""
    lanes = max(3, min(len(snapshot.lanes), height // 4))
    rest = height - 1 - (STORY_ROWS + BORDER) - (lanes + 1 + BORDER) - 2 * BORDER
    pods = max(2, min(max(len(snapshot.pods), 4) + 1, rest // 2))
    return Group(
        _header(snapshot, width),
        _story(snapshot),
        calendar(snapshot.lanes, snapshot.now, width, lanes),
        _pods(snapshot.pods, snapshot.now, pods),
        _lines(snapshot.lines, rest - pods),
    )


def verdicts(found: Sequence[Verdict], story: str) -> RenderableType:
    """The summary."""
    table = Table.grid(padding=(0, 2))
    for _ in range(2):
        table.add_column(no_wrap=True)
    table.add_column()
    for verdict in found:
        mark = Text("✓ proved", "green") if verdict.holds else Text("✗ FAILED", "bold red")
        table.add_row(mark, Text(verdict.claim), Text(verdict.detail, "" if verdict.holds else "bold red"))
    if story:
        table.add_row(Text("✗ FAILED", "bold red"), Text("the story was told to its end"), Text(story, "bold red"))
    held = sum(verdict.holds for verdict in found)
    return Panel(
        table, title=f"{held} of {len(found)} claims proved, on watch history and audit log", title_align="left"
    )


def _header(snapshot: Snapshot, width: int) -> RenderableType:
    left = Text(" gpu-reservations", "bold", no_wrap=True, overflow="ellipsis")
    for part in snapshot.parts:
        left.append("  ")
        left.append_text(_part(part))
    right = Text(f"{snapshot.elapsed:.0f} s ")
    left.truncate(width - len(right) - 1)
    return Text.assemble(left, " " * (width - left.cell_len - len(right)), right, no_wrap=True)


def _part(part: Part) -> Text:
    if not part.up:
        return Text(f"✗ {part.name} down", "bold red")
    return Text(f"★ {part.name} leads" if part.leads else f"● {part.name}", "green")


def _story(snapshot: Snapshot) -> RenderableType:
    told = snapshot.told
    quote = ("\n" + told.quote, "italic cyan") if told.quote else ""
    text = Text.assemble(told.sentence, quote)
    title = Text.assemble((f" {told.number}/{told.of} ", "reverse"), (f" {told.title} ", "bold"))
    classes = Text(" · ").join(_class(found) for found in snapshot.classes)
    return Panel(
        text, title=title, title_align="left", subtitle=classes, subtitle_align="right", height=STORY_ROWS + BORDER
    )


def _class(found: ClassRow) -> Text:
    return Text(f"{found.name}: {found.claimed} used, {found.reserved} reserved now of {found.bookable}")


def _pods(pods: Sequence[PodRow], now: datetime, rows: int) -> RenderableType:
    table = Table.grid(padding=(0, 1), expand=True)
    for _ in range(3):
        table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, ratio=1, overflow="ellipsis")
    shown = pods if len(pods) <= rows else pods[: rows - 1]
    for pod in shown:
        mark, colour = MARKS[pod.state]
        table.add_row(
            Text(f"{mark} {pod.state.value}", colour),
            Text(pod.name),
            Text(f"{pod.units} × {pod.gpu_class}"),
            _why(pod, now),
        )
    if len(shown) < len(pods):
        table.add_row("", Text(f"and {len(pods) - len(shown)} more", "italic"))
    return Panel(table, title="Pods: where they run, why they wait", title_align="left", height=rows + BORDER)


def _why(pod: PodRow, now: datetime) -> Text:
    if not pod.reason and pod.until:
        guarantee = f"guaranteed until {pod.until:%H:%M:%S}" if now < pod.until else "past its guarantee"
        return Text(f"{pod.detail}, {guarantee}")
    if not pod.reason:
        return Text(pod.detail)
    left = pod.until - now if pod.until else None
    until = f" (until {pod.until:%H:%M:%S}, {_in(left)})" if pod.until and left else ""
    return Text.assemble((f"{pod.reason}{until}", "yellow"), f" {pod.detail}")


def _in(left: timedelta) -> str:
    seconds = max(0, round(left.total_seconds()))
    return f"in {seconds} s" if seconds < 120 else f"in {seconds // 60} min"


def _lines(lines: Iterable[Line], rows: int) -> RenderableType:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, ratio=1, overflow="ellipsis")
    # The steps have a place of their own.
    last = [found for found in lines if found.topic is not Topic.STEP][-rows:]
    for found in last:
        table.add_row(
            Text(f"{found.at:.1f} s", "bright_black"), Text(found.who, COLOURS[found.topic]), Text(found.text)
        )
    return Panel(table, title="What happened", title_align="left", height=rows + BORDER)
