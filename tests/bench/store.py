"""Reports as files under build/bench, and the table of docs/reference/performance.md."""

from __future__ import annotations

import os
import platform
import subprocess
from datetime import datetime
from pathlib import Path

import msgspec

from tests.bench.figures import Machine, Report

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "bench"
DOCUMENT = ROOT / "docs" / "reference" / "performance.md"
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"


def file_name(instant: datetime) -> str:
    """Sorts by time."""
    return f"{instant:%Y%m%dT%H%M%SZ}"


def write(report: Report, name: str) -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.json"
    path.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    return path


def newest() -> Path:
    """Raises FileNotFoundError with a sentence for people."""
    found = sorted(FOLDER.glob("*.json"))
    if not found:
        message = f"no report in {FOLDER}; run `make bench` first"
        raise FileNotFoundError(message)
    return found[-1]


def read(path: Path) -> Report:
    return msgspec.json.decode(path.read_bytes(), type=Report)


def with_table(document: str, table: str) -> str:
    """Put the table between the marks; raises ValueError where they are missing."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        message = f"the document has no {BEGIN} … {END}"
        raise ValueError(message)
    return f"{before}{BEGIN}\n\n{table.strip()}\n\n{END}{after}"


def load() -> float:
    """The load average of the last minute."""
    return round(os.getloadavg()[0], 2)


def machine(load_before: float) -> Machine:
    return Machine(
        cpus=len(os.sched_getaffinity(0)),
        model=_model(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        load=(load_before, load()),
    )


def commit() -> str:
    """The short hash, with a `+` where files differ from it; `unknown` outside of a checkout."""
    try:
        found = _git("rev-parse", "--short", "HEAD")
        return f"{found}+" if _git("status", "--porcelain", "--untracked-files=no") else found
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()


def _model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
