"""Writes docs/reference/tested-on.md: one row for each kind of cluster, and what the newest run on kind saw."""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
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
<!-- Written by `make e2e-kind` and `make e2e TESTED_ON=1`; do not edit. -->
# Tested on

One row for each kind of cluster; a newer run on the same kind takes its row. `tests/e2e` is one suite for all of them;
`tests/kind` is what only real kubelets show, with the product's own image and chart.

| Kubernetes | cluster | date (UTC) | commit | result |
|---|---|---|---|---|
"""
TESTS: Final = "| test | result | s | measured |\n|---|---|---|---|"
FILES: Final = "| file | passed | failed | not run | s |\n|---|---|---|---|---|"
REVISION: Final = '{{index .Config.Labels "org.opencontainers.image.revision"}}'
ROW: Final = re.compile(r"^\| v\d.*\|$", re.MULTILINE)
NEWEST: Final = re.compile(r"^## The newest run on kind\n.*", re.MULTILINE | re.DOTALL)


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
class Ended:
    """How a test ended, and why it was not run if it was not."""

    folder: str
    file: str
    name: str
    outcome: str
    seconds: float
    seen: str
    reason: str


@dataclass(eq=False)
class Outcomes:
    """A pytest plugin that remembers how each test ended."""

    tests: dict[str, Ended] = field(default_factory=dict)
    seconds: float = 0.0
    left_out: int = 0

    @property
    def whole(self) -> bool:
        """Whether every test had its turn."""
        return bool(self.tests) and not self.left_out

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self.left_out += len(items)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self.left_out += len(getattr(session, "items", ())) - len(self.tests)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """A test counts once: by its call, or by what went wrong before or after it."""
        self.seconds += report.duration
        if report.when != "call" and report.passed:
            return
        folder, _, rest = report.nodeid.removeprefix("tests/").partition("/")
        file, _, name = rest.partition("::")
        reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
        seen = "; ".join(
            f"{value} {key}" if key == "seconds" else f"{key}: {value}" for key, value in report.user_properties
        )
        name = name.removeprefix("test_").replace("_", " ")
        self.tests[report.nodeid] = Ended(folder, file, name, report.outcome, report.duration, seen, reason)

    def sentence(self) -> str:
        counts = Counter(test.outcome for test in self.tests.values())
        counts["left out of a short run"] = self.left_out
        told = ("passed", "failed", "skipped", "left out of a short run")
        counted = ", ".join(f"{counts[each]} {each}" for each in told if counts[each])
        return f"{counted or 'nothing ran'} in {self.seconds:.0f} s"


def about(cluster: KindCluster, image: str) -> About:
    """What the cluster, the image and the checkout say of themselves."""
    nodes = cluster.admin.items("nodes")
    runtimes = sorted({str(node["status"]["nodeInfo"]["containerRuntimeVersion"]) for node in nodes})
    described = f"kind, {len(nodes)} nodes, {', '.join(runtimes).replace('://', ' ')}"
    built = run("docker", "image", "inspect", "--format", REVISION, image, check=False).stdout.strip()
    here, state = checkout()
    commit = f"{here} {state}" if built == here else f"image of {built or 'unknown'}, chart of {here} {state}"
    return About(cluster.version(), described, today(), commit)


def checkout() -> tuple[str, str]:
    """Its commit, and whether that is all."""
    here = run("git", "rev-parse", "--short", "HEAD", cwd=ROOT, check=False).stdout.strip()
    status = ("git", "status", "--porcelain", "--untracked-files=no", "--", ".", f":(exclude){PAGE.relative_to(ROOT)}")
    changed = run(*status, cwd=ROOT, check=False).stdout.strip()
    return here or "unknown", "with changes" if changed else "as committed"


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%d %H:%M")


def write(place: About, outcomes: Outcomes, page: Path = PAGE, *, details: bool = True) -> None:
    """Put the run into the page; without details what was told of another run stays."""
    before = page.read_text() if page.exists() else ""
    kept = [row for row in ROW.findall(before) if not place.same_place(row)]
    rows = sorted([*kept, place.row(outcomes.sentence())], reverse=True)
    known = NEWEST.search(before)
    told = newest(place, list(outcomes.tests.values())) if details else (known[0] if known else "")
    page.write_text(HEAD + "\n".join(rows) + "\n" + (f"\n{told}" if told else ""))


def newest(place: About, tests: Sequence[Ended]) -> str:
    """What is told of one run."""
    kind = "\n".join(_row(test) for test in tests if test.folder == "kind")
    common = [test for test in tests if test.folder != "kind"]
    files = "\n".join(_file(name, [test for test in common if test.file == name]) for name in _names(common))
    reasons = Counter(test.reason for test in tests if test.reason)
    return (
        f"## The newest run on kind\n\n{place.sentence()}, {place.date}. Seconds are a test's own, without its "
        f"preparation.\n\n### What only kind shows\n\n{TESTS}\n{kind}\n\n### The suite for every cluster\n\n"
        f"{FILES}\n{files}\n\nWhy tests were not run, and how many:\n\n"
        + "".join(f"- {reason}: {count}\n" for reason, count in reasons.items())
    )


def _names(tests: Iterable[Ended]) -> Sequence[str]:
    return list(dict.fromkeys(test.file for test in tests))


def _row(test: Ended) -> str:
    return f"| {test.name} | {test.outcome} | {test.seconds:.0f} | {test.seen} |"


def _file(name: str, tests: Sequence[Ended]) -> str:
    counts = Counter(test.outcome for test in tests)
    took = sum(test.seconds for test in tests)
    shown = name.removeprefix("test_").removesuffix(".py").replace("_", " ")
    return f"| {shown} | {counts['passed']} | {counts['failed']} | {counts['skipped']} | {took:.0f} |"
