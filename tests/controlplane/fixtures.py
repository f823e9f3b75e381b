"""Fixtures of the real control plane; the top-level conftest.py re-exports them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from tests.controlplane.api_proxy import ApiProxy
from tests.controlplane.cluster import ControlPlane

KIND_KUBECONFIG = "GPURES_KIND_KUBECONFIG"
"""Set by `python -m tests.kind`: the cluster of this run is that one, and none of processes is started."""


def on_kind() -> bool:
    return KIND_KUBECONFIG in os.environ


@pytest.fixture(scope="session")
def processes_at_hand() -> None:
    """For tests that start, stop, freeze or look into processes of their own."""
    if on_kind():
        pytest.skip("needs the processes of a plain control plane at hand")


@pytest.fixture(scope="session")
def audit_log() -> None:
    """For tests whose point is what the API server wrote into its audit log."""
    if on_kind():
        pytest.skip("needs the API server's audit log, which this cluster keeps to itself")


@pytest.fixture(scope="session")
def stand_in_nodes() -> None:
    """For tests whose nodes fail and recover when they are told to, within a second."""
    if on_kind():
        pytest.skip("needs stand-in nodes, which fail when they are told to")


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest, processes_at_hand: None) -> Iterator[ControlPlane]:
    """One control plane for the whole run."""
    yield from _for_session(request, ControlPlane())


@pytest.fixture(scope="session")
def control_plane_without_hold_policy(
    request: pytest.FixtureRequest, processes_at_hand: None
) -> Iterator[ControlPlane]:
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
