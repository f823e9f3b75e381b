"""The installed product on a cluster, once for all files here; each test gets a stage of its own.

The cluster is a control plane of processes, or the one of kind that `python -m tests.kind` prepared. A test that needs
more than both have asks for it: `product`, `processes_at_hand`, `audit_log`, `stand_in_nodes`, or the stage without a
hold policy.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.fixtures import on_kind
from tests.controlplane.product import Product
from tests.e2e.stage import Stage
from tests.e2e.venue import PlainVenue, Venue
from tests.kind.venue import KindVenue

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


@pytest.fixture(scope="package")
def venue(request: pytest.FixtureRequest) -> Venue:
    if on_kind():
        return KindVenue(request.getfixturevalue("installation"))
    return PlainVenue(request.getfixturevalue("product"))


@pytest.fixture(scope="package")
def venue_without_hold_policy(product_without_hold_policy: Product) -> Venue:
    return PlainVenue(product_without_hold_policy)


@pytest.fixture
def stage(venue: Venue) -> Iterator[Stage]:
    yield from _stage(venue)


@pytest.fixture
def stage_without_hold_policy(venue_without_hold_policy: Venue) -> Iterator[Stage]:
    yield from _stage(venue_without_hold_policy)


@pytest.fixture(params=["stage", "stage_without_hold_policy"], ids=["hold-policy", "taint-alone"])
def either_stage(request: pytest.FixtureRequest) -> Stage:
    """The same test on both kinds of clusters."""
    found: Stage = request.getfixturevalue(request.param)
    return found


def _stage(venue: Venue) -> Iterator[Stage]:
    stage = venue.stage()
    try:
        yield stage
    finally:
        stage.close()
