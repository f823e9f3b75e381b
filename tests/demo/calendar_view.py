"""The calendar: a lane for each reservation on an axis that moves with the time; pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tests.demo.model import Lane

SPAN = timedelta(seconds=90)
PAST = timedelta(seconds=25)
NAME, USED, PHASE = 13, 14, 9
NOW = "┃"
ENDED, BOOKED, ELAPSED, AHEAD = "─", "░", "█", "▓"
COLOURS = {ENDED: "bright_black", BOOKED: "blue", ELAPSED: "green", AHEAD: "green", NOW: "bold red"}
TICKS_S = (10, 15, 20, 30, 60)
LABEL = 8
BORDERS = 4


def calendar(lanes: Sequence[Lane], now: datetime, width: int, rows: int) -> RenderableType:
    """Draw the last `rows` lanes; the panel is rows + 3 high."""
    room = max(10, width - BORDERS - NAME - USED - PHASE - 3)
    table = Table.grid(padding=(0, 1))
    for column in (NAME, USED, PHASE):
        table.add_column(no_wrap=True, width=column, overflow="ellipsis")
    table.add_column(no_wrap=True, width=room, overflow="ellipsis")
    table.add_row("", Text("used", "bright_black"), "", axis(now, room))
    for lane in lanes[-rows:]:
        used = f"{lane.claimed}/{lane.units} × {lane.gpu_class}"
        bar = Text(f"✗ {_short(lane.remark)}", "red") if lane.window is None and lane.remark else bars(lane, now, room)
        table.add_row(Text(lane.name), Text(used), Text(lane.phase), bar)
    legend = f"{BOOKED} booked  {ELAPSED}{AHEAD} open: gone, left  {ENDED} over  {NOW} now"
    return Panel(table, title="Calendar", title_align="left", subtitle=legend, subtitle_align="right", height=rows + 3)


def axis(now: datetime, room: int) -> Text:
    """Labels at whole ticks, as many as have room."""
    left, cell = now - PAST, SPAN / room
    fitting = (step for step in TICKS_S if timedelta(seconds=step) / cell >= LABEL + 4)
    step = next(fitting, TICKS_S[-1])
    text = [" "] * room
    first = int(left.timestamp()) // step * step
    for second in range(first, first + int(SPAN.total_seconds()) + step, step):
        tick = datetime.fromtimestamp(second, now.tzinfo)
        at = int((tick - left) / cell)
        label = f"╷{tick:%H:%M:%S}"
        if at >= 0 and at + len(label) <= room:
            text[at : at + len(label)] = label
    return Text("".join(text), "bright_black")


def bars(lane: Lane, now: datetime, room: int) -> Text:
    """The window of a lane, and the line of now through it."""
    left, cell = now - PAST, SPAN / room
    now_at = int(PAST / cell)
    line = Text()
    for at in range(room):
        middle = left + cell * (at + 0.5)
        mark = NOW if at == now_at else _mark(lane, middle, now)
        if at == room - 1 and lane.window is not None and lane.window[1] > left + SPAN and mark != " ":
            line.append("▶", COLOURS[mark])
        else:
            line.append(mark, COLOURS.get(mark, ""))
    return line


def _mark(lane: Lane, instant: datetime, now: datetime) -> str:
    if lane.window is None or not lane.window[0] <= instant < lane.window[1]:
        return " "
    if lane.phase in ("Ended", "Canceled"):
        return ENDED
    if lane.phase == "Active":
        return ELAPSED if instant < now else AHEAD
    return BOOKED


def _short(remark: str) -> str:
    """The part of a denial that helps."""
    return remark.rpartition("; ")[2]
