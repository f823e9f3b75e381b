"""Fixtures of the real control plane; the top-level conftest.py re-exports them."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from tests.controlplane.api_proxy import ApiProxy
from tests.controlplane.cluster import ControlPlane


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """One control plane for the whole run."""
    yield from _for_session(request, ControlPlane())


@pytest.fixture(scope="session")
def control_plane_without_hold_policy(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """One control plane that serves no MutatingAdmissionPolicy, as before Kubernetes 1.36."""
    yield from _for_session(request, ControlPlane(hold_policy_api=False))


@pytest.fixture
def namespace(control_plane: ControlPlane) -> str:
    """A namespace that no other test has."""
    return control_plane.unique_namespace()


@pytest.fixture
def api_proxy(control_plane: ControlPlane) -> Iterator[ApiProxy]:
    """A fault proxy before the control plane."""
    with ApiProxy(control_plane) as proxy:
        yield proxy


def _for_session(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[ControlPlane]:
    failures = request.session.testsfailed
    control_plane.start()
    try:
        yield control_plane
    finally:
        if request.session.testsfailed > failures:
            control_plane.keep_directory = True
            print(f"\nlogs of the control plane: {control_plane.directory}", file=sys.stderr)
        control_plane.stop()
