"""The broken world is built once for all faults; the mark is registered here."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.faults.world import World


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "starred: a fault that every run of the tests goes through")


@pytest.fixture(scope="package")
def world(control_plane: ControlPlane) -> Iterator[World]:
    with World(control_plane, brief=True) as world:
        yield world
