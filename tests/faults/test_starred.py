"""The faults with a star: each for some seconds, under load, with an auditor who looks at every stored version."""

from __future__ import annotations

import pytest

from tests.faults.runner import run
from tests.faults.table import STARRED, Fault
from tests.faults.world import World

pytestmark = [pytest.mark.controlplane, pytest.mark.starred]


@pytest.mark.parametrize("fault", STARRED, ids=[fault.id for fault in STARRED])
def test_promises_hold_and_all_is_well_soon_after(fault: Fault, request: pytest.FixtureRequest) -> None:
    if fault.stage is None:
        pytest.skip(f"not run: {fault.not_run}")
    world: World = request.getfixturevalue("world")
    outcome = run(world, fault)
    assert outcome.held, "\n".join(outcome.violations)
