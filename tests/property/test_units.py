"""Units against an implementation that lives through a pod's start-up, moment by moment."""

import math
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from common.domain.gpu_class import Unit
from common.domain.units import ContainerRequest, effective_requests, node_units, pod_units
from tests.property.profile import CALM

NAMES = ("cpu", "memory", "nvidia.com/gpu", "example.com/nic")

amounts = st.decimals(min_value=0, max_value=64, places=3)
requests = st.dictionaries(st.sampled_from(NAMES), amounts)
containers = st.lists(st.builds(ContainerRequest, requests), max_size=4)
init_containers = st.lists(st.builds(ContainerRequest, requests, restartable=st.booleans()), max_size=5)
units = st.dictionaries(
    st.sampled_from(NAMES), st.decimals(min_value=Decimal("0.001"), max_value=16, places=3), min_size=1
).map(lambda resources: Unit("unit", resources))


def moments(running: list[ContainerRequest], starting: list[ContainerRequest]) -> list[list[ContainerRequest]]:
    """Who runs at each moment of the pod's life: every init container in turn, then the containers."""
    sidecars: list[ContainerRequest] = []
    lived = []
    for container in starting:
        lived.append([*sidecars, container])
        if container.restartable:
            sidecars = [*sidecars, container]
    return [*lived, [*sidecars, *running]]


def naive(
    resource: str,
    running: list[ContainerRequest],
    starting: list[ContainerRequest],
    overhead: dict[str, Decimal],
    pod_level: dict[str, Decimal],
) -> Decimal:
    if resource in pod_level and resource in ("cpu", "memory"):
        most = pod_level[resource]
    else:
        most = max(
            sum((c.requests.get(resource, Decimal(0)) for c in moment), Decimal(0))
            for moment in moments(running, starting)
        )
    return most + overhead.get(resource, Decimal(0))


@CALM
@given(containers, init_containers, requests, requests)
def test_a_pod_needs_what_its_hungriest_moment_needs(
    running: list[ContainerRequest],
    starting: list[ContainerRequest],
    overhead: dict[str, Decimal],
    pod_level: dict[str, Decimal],
) -> None:
    found = effective_requests(running, starting, overhead, pod_level)
    for resource in NAMES:
        expected = naive(resource, running, starting, overhead, pod_level)
        assert found.get(resource, Decimal(0)) == expected


@CALM
@given(requests, units)
def test_a_pod_counts_the_least_number_of_units_that_hold_all_it_asks(asked: dict[str, Decimal], unit: Unit) -> None:
    shares = [math.ceil(Fraction(asked.get(r, Decimal(0))) / Fraction(q)) for r, q in unit.resources.items()]
    assert pod_units(asked, unit) == max(shares)


@CALM
@given(requests, requests, units)
def test_a_node_counts_the_most_units_that_it_can_hold(
    offer: dict[str, Decimal], used: dict[str, Decimal], unit: Unit
) -> None:
    zero = Decimal(0)
    shares = [
        math.floor(Fraction(offer.get(r, zero) - used.get(r, zero)) / Fraction(q)) for r, q in unit.resources.items()
    ]
    assert node_units(offer, unit, used) == max(0, min(shares))


@CALM
@given(requests, requests, units)
def test_a_pod_of_no_more_units_than_a_node_has_fits_there(
    asked: dict[str, Decimal], offer: dict[str, Decimal], unit: Unit
) -> None:
    counted = {r: q for r, q in asked.items() if r in unit.resources}
    if pod_units(counted, unit) <= node_units(offer, unit):
        assert all(q <= offer.get(r, Decimal(0)) for r, q in counted.items())
