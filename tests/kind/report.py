"""Writes docs/reference/tested-on.md: one row for each kind of cluster, and every test of the newest run."""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest

from tests.chart.reference import REFERENCE, ROOT
from tests.kind.cluster import KindCluster
from tests.kind.running import run

PAGE: Final = REFERENCE / "tested-on.md"
HEAD: Final = """\
<!-- Written by `make e2e-kind`; do not edit. -->
# Tested on

One row for each cluster on which the suite `tests/kind` ran with the product's own image and chart; a newer run
on the same kind of cluster takes its row.

| Kubernetes | cluster | date (UTC) | commit | result |
|---|---|---|---|---|
"""
REVISION: Final = '{{index .Config.Labels "org.opencontainers.image.revision"}}'
ROW: Final = re.compile(r"^\| v\d.*\|$", re.MULTILINE)


@dataclass(frozen=True)
class About:
    """Where it ran."""

    kubernetes: str
    cluster: str
    date: str
    commit: str

    def sentence(self) -> str:
        return f"Kubernetes {self.kubernetes}, {self.cluster}"

    def row(self, result: str) -> str:
        return f"| {self.kubernetes} | {self.cluster} | {self.date} | {self.commit} | {result} |"

    def same_place(self, row: str) -> bool:
        return row.startswith(f"| {self.kubernetes} | {self.cluster} |")


@dataclass
class Outcomes:
    """A pytest plugin that remembers how each test ended."""

    rows: dict[str, str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test counts once: by its call, or by what went wrong before or after it."""
        self.seconds += report.duration
        if report.when != "call" and report.passed:
            return
        name = report.nodeid.rpartition("/")[2].replace(".py::test_", ": ").removeprefix("test_").replace("_", " ")
        seen = "; ".join(
            f"{value} {key}" if key == "seconds" else f"{key}: {value}" for key, value in report.user_properties
        )
        self.rows[name] = f"| {name} | {report.outcome} | {report.duration:.0f} | {seen} |"
        self.counts[report.outcome] = self.counts.get(report.outcome, 0) + 1

    def sentence(self) -> str:
        counted = ", ".join(f"{count} {outcome}" for outcome, count in sorted(self.counts.items(), reverse=True))
        return f"{counted or 'nothing ran'} in {self.seconds:.0f} s"


def about(cluster: KindCluster, image: str) -> About:
    """What the cluster, the image and the checkout say of themselves."""
    nodes = cluster.admin.items("nodes")
    runtimes = sorted({str(node["status"]["nodeInfo"]["containerRuntimeVersion"]) for node in nodes})
    described = f"kind, {len(nodes)} nodes, {', '.join(runtimes).replace('://', ' ')}"
    built = run("docker", "image", "inspect", "--format", REVISION, image, check=False).stdout.strip()
    here = run("git", "rev-parse", "--short", "HEAD", cwd=ROOT, check=False).stdout.strip()
    changed = run("git", "status", "--porcelain", "--untracked-files=no", cwd=ROOT, check=False).stdout.strip()
    state = "with changes" if changed else "as committed"
    commits = (
        f"{here or 'unknown'} {state}" if built == here else f"image of {built or 'unknown'}, chart of {here} {state}"
    )
    moment = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return About(cluster.version(), described, moment, commits)


def write(place: About, outcomes: Outcomes, page: Path = PAGE) -> None:
    """Put the run into the page."""
    before = ROW.findall(page.read_text()) if page.exists() else []
    kept = [row for row in before if not place.same_place(row)]
    page.write_text(render([*kept, place.row(outcomes.sentence())], place, outcomes))


def render(rows: Sequence[str], place: About, outcomes: Outcomes) -> str:
    """The whole page."""
    table = "\n".join(sorted(rows, reverse=True))
    tests = "\n".join(outcomes.rows.values())
    return (
        f"{HEAD}{table}\n\n## The newest run\n\n{place.sentence()}, {place.date}. Seconds are a test's own, "
        f"without its preparation.\n\n| test | result | s | measured |\n|---|---|---|---|\n{tests}\n"
    )
