"""The views draw what the snapshot says, in the size that they are given."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console, RenderableType

from tests.demo import calendar_view, happenings, plain, recordings, view
from tests.demo.model import ClassRow, Lane, Line, Part, PodRow, Snapshot, State, Told, Topic
from tests.demo.proofs import Verdict
from tests.unit.demo.made_up import pod, reservation

NOW = datetime(2026, 12, 1, 9, 0, 0, tzinfo=UTC)


def seconds(count: float) -> datetime:
    return NOW + timedelta(seconds=count)


def drawn(what: RenderableType, width: int = 100, height: int = 30) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), record=True, color_system=None)
    console.print(what)
    return console.export_text().splitlines()


def snapshot(pods: int = 3, lines: int = 40) -> Snapshot:
    waiting = PodRow(
        "alice/early", "h100", 1, State.HELD, "WaitingForReservation", "reservation sprint opens", seconds(7)
    )
    running = (PodRow(f"bob/p-{index}", "h100", 2, State.RUNNING, detail="on gpu-a") for index in range(pods - 1))
    return Snapshot(
        now=NOW,
        elapsed=42.4,
        told=Told(2, 11, "Too early", "A pod comes before its window.", "alice reads: held: it opens later"),
        parts=(Part("webhook-0", up=False), Part("reconciler-0", up=True, leads=True)),
        classes=(ClassRow("h100", 12, 6, 3),),
        lanes=(
            Lane("alice/sprint", "h100", 2, 0, "Confirmed", (seconds(7), seconds(40))),
            Lane("bob/train", "h100", 4, 3, "Active", (seconds(-10), seconds(900))),
            Lane("carol/huge", "h100", 12, 0, "Denied", None, "h100: 12 units asked; first slot: 10:00 UTC"),
        ),
        pods=(waiting, *running),
        lines=tuple(Line(float(index), Topic.POD, "bob/p", f"happening {index}") for index in range(lines)),
    )


@pytest.mark.parametrize(("width", "height"), [(100, 30), (140, 40), (80, 24)])
@pytest.mark.parametrize("pods", [1, 4, 50])
def test_it_fills_the_terminal_and_no_more(width: int, height: int, pods: int) -> None:
    lines = drawn(view.draw(snapshot(pods), width, height), width, height)
    assert len(lines) == height
    assert {len(line) for line in lines[1:]} == {width}


def test_it_says_without_colours_who_waits_why_and_until_when() -> None:
    text = "\n".join(drawn(view.draw(snapshot(), 140, 40), 140, 40))
    for part in (
        "2/11  Too early",
        "alice reads: held: it opens later",
        "✗ webhook-0 down",
        "★ reconciler-0 leads",
        "‖ held    alice/early 1 × h100 WaitingForReservation (until 09:00:07, in 7 s) reservation sprint opens",
        "h100: 3 used, 6 reserved now of 12",
        "✗ first slot: 10:00 UTC",
        "happening 39",
    ):
        assert part in text


def test_more_pods_than_rows_are_counted() -> None:
    text = "\n".join(drawn(view.draw(snapshot(50), 100, 30)))
    hidden = re.search(r"and (\d+) more", text)
    assert hidden is not None
    assert text.count("running bob/p-") + text.count("held    alice/early") + int(hidden[1]) == 50


def test_a_lane_shows_what_is_gone_and_what_is_left() -> None:
    lane = Lane("bob/train", "h100", 4, 3, "Active", (seconds(-10), seconds(20)))
    assert calendar_view.bars(lane, NOW, 90).plain == " " * 15 + "█" * 10 + "┃" + "▓" * 19 + " " * 45


def test_a_window_beyond_the_edge_goes_on() -> None:
    lane = Lane("alice/sprint", "h100", 2, 0, "Confirmed", (seconds(60), seconds(600)))
    assert calendar_view.bars(lane, NOW, 90).plain.endswith("░░░░▶")


def test_a_window_that_is_over_is_a_line() -> None:
    lane = Lane("alice/sprint", "h100", 2, 0, "Ended", (seconds(-20), seconds(-10)))
    assert calendar_view.bars(lane, NOW, 90).plain.strip().startswith("──────────")


def test_the_axis_moves_with_the_time() -> None:
    first, later = (calendar_view.axis(seconds(count), 90).plain for count in (0, 5))
    assert first.index("09:00:00") == later.index("09:00:00") + 5


def test_the_summary_fits_into_a_small_terminal() -> None:
    found = [Verdict("let in at CREATE", holds=True, detail="n=2"), Verdict("on time", holds=False, detail="2 s late")]
    text = "\n".join(drawn(view.verdicts(found, "")))
    assert "✓ proved" in text
    assert "✗ FAILED  on time" in text
    assert "1 of 2 claims proved" in text


def test_plain_lines_carry_the_seconds() -> None:
    assert plain.line(Line(3.25, Topic.POD, "bob/p", "runs")) == "   3.25  pod bob/p: runs"
    assert plain.line(Line(3.25, Topic.STEP, "1/2 Book", "Now.")) == "   3.25  -- 1/2 Book -- Now."


def test_a_recording_shows_each_moment_and_loads_nothing() -> None:
    picture = recordings.animated([snapshot(), snapshot()])
    assert picture.count('class="frame"') == 2
    assert "@font-face" not in picture
    assert picture.count("http") == picture.count("http://www.w3.org/2000/svg")


def test_what_happens_to_a_pod_is_told_once() -> None:
    held, inside = pod("alice/early", held="ReservationFull"), pod("alice/early", token="t", reservation="sprint")
    assert list(happenings.of_pod(None, held)) == ["held (1 × h100): ReservationFull: a sentence"]
    assert list(happenings.of_pod(held, held)) == []
    assert list(happenings.of_pod(held, inside)) == ["gate opened, toleration added"]
    assert list(happenings.of_pod(None, inside)) == ["let in at CREATE (1 × h100)"]


def test_what_happens_to_a_reservation_is_told_once() -> None:
    confirmed = reservation("alice/sprint", {}, phase="Confirmed", message="2 × h100")
    active = reservation("alice/sprint", {})
    assert list(happenings.of_reservation(None, confirmed)) == ["Confirmed: 2 × h100"]
    assert list(happenings.of_reservation(confirmed, active)) == ["Active: its window is open"]
    assert list(happenings.of_reservation(active, active)) == []
