"""The installed product on a real control plane, started once for all files here; each test gets a stage of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.product import Product
from tests.e2e.stage import Stage

PATIENT = {"GPURES_CLAIM_DEADLINE": "4s"}
"""On a machine that many tests share, a claim may take longer than the 2 s that ship: then pods are let in later."""


@pytest.fixture(scope="package")
def product(control_plane: ControlPlane) -> Iterator[Product]:
    """Two webhooks, a reconciler and the hold policy."""
    with Product(control_plane, environment=dict(PATIENT)) as running:
        yield running


@pytest.fixture(scope="package")
def product_without_hold_policy(control_plane_without_hold_policy: ControlPlane) -> Iterator[Product]:
    """A cluster that serves no MutatingAdmissionPolicy; its people read the time of Berlin."""
    berlin = PATIENT | {"EVENT_DISPLAY_TIMEZONE": "Europe/Berlin"}
    with Product(control_plane_without_hold_policy, hold=False, environment=berlin) as running:
        yield running


@pytest.fixture
def stage(product: Product) -> Iterator[Stage]:
    yield from _stage(product)


@pytest.fixture
def stage_without_hold_policy(product_without_hold_policy: Product) -> Iterator[Stage]:
    yield from _stage(product_without_hold_policy)


@pytest.fixture(params=["stage", "stage_without_hold_policy"], ids=["hold-policy", "taint-alone"])
def either_stage(request: pytest.FixtureRequest) -> Stage:
    """The same test on both kinds of clusters."""
    found: Stage = request.getfixturevalue(request.param)
    return found


def _stage(product: Product) -> Iterator[Stage]:
    stage = Stage(product)
    try:
        yield stage
    finally:
        stage.close()
