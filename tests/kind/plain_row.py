"""`make e2e TESTED_ON=1`: the run on the plain control plane puts its row into tested-on.md."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.kind import report

MODULE: Final = Path(__file__).parents[1] / "controlplane" / "tools" / "go.mod"
RELEASE: Final = re.compile(r"k8s\.io/kubernetes (v\S+)")
OUTCOMES: Final = report.Outcomes()


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(OUTCOMES, "tested-on")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Written whether all is well or not: the row says which."""
    if session.config.option.collectonly or not OUTCOMES.tests:
        return
    found = RELEASE.search(MODULE.read_text())
    assert found is not None
    place = report.About(found[1], "plain control plane, KWOK nodes", report.today(), " ".join(report.checkout()))
    report.write(place, OUTCOMES, details=False)
