"""`make demo` as CI and a pipe see it: plain lines, a summary, and an exit code that tells the truth."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.controlplane.polling import until
from tests.demo.proofs import CLAIMS

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("processes_at_hand")]

ROOT = Path(__file__).resolve().parents[2]
DEADLINE_S = 240


@contextmanager
def demo(log: Path, temporary: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """The demo as a child, which lays its folders into `temporary` and is interrupted if it is still there."""
    temporary.mkdir()
    settings = [f"{name}={value}" for name, value in {"TMPDIR": str(temporary), **environment}.items()]
    command = ["env", *settings, sys.executable, "-m", "tests.demo"]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT) as child:
        try:
            yield child
        finally:
            if child.poll() is None:
                child.send_signal(signal.SIGINT)
                child.wait(60)


def test_without_a_terminal_it_proves_every_claim_and_leaves_nothing_behind(tmp_path: Path) -> None:
    log, temporary = tmp_path / "demo.log", tmp_path / "t"
    with demo(log, temporary, PACE="0") as child:
        code = child.wait(DEADLINE_S)
    text = log.read_text()
    assert code == 0, text
    assert len(re.findall(r"^proved  .+ \(.*n=\d+\)$", text, re.MULTILINE)) == len(CLAIMS), text
    assert f"{len(CLAIMS)} of {len(CLAIMS)} claims proved\n" in text
    assert "\x1b" not in text
    assert list(temporary.iterdir()) == []


def test_interrupted_it_cleans_up(tmp_path: Path) -> None:
    log, temporary = tmp_path / "demo.log", tmp_path / "t"
    with demo(log, temporary, PACE="1") as child:
        until(lambda: "-- 2/" in log.read_text(), DEADLINE_S, "the second step of the story")
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 130
    assert list(temporary.iterdir()) == []
    assert "Traceback" not in log.read_text()
