"""Units of pods and nodes, counted as the scheduler counts."""

from decimal import Decimal

import pytest

from common.domain.gpu_class import Unit
from common.domain.pod import Requests
from common.domain.units import (
    ContainerRequest,
    asks_for,
    counted_natively,
    declared_units,
    effective_requests,
    node_units,
    pod_units,
)
from tests.support.builders import GPU, a_class, a_node

GI = Decimal(2**30)
MEMORY_AND_CPU = Unit("slot", {"memory": 16 * GI, "cpu": Decimal(2)})
ONE_GPU = Unit()


def gpus(count: int, *, sidecar: bool = False) -> ContainerRequest:
    return ContainerRequest({GPU: Decimal(count)}, restartable=sidecar)


def total(containers: list[ContainerRequest], init: list[ContainerRequest] | None = None) -> int:
    return pod_units(effective_requests(containers, init or []), ONE_GPU)


def test_containers_add_up() -> None:
    assert total([gpus(1), gpus(2)]) == 3


def test_the_largest_init_container_counts_when_it_needs_more_than_the_containers() -> None:
    assert total([gpus(1)], [gpus(3), gpus(4)]) == 4
    assert total([gpus(5)], [gpus(3), gpus(4)]) == 5


def test_a_sidecar_runs_beside_the_containers() -> None:
    assert total([gpus(2)], [gpus(1, sidecar=True)]) == 3


def test_a_sidecar_counts_with_the_init_containers_after_it_and_not_with_those_before() -> None:
    assert total([gpus(0)], [gpus(1, sidecar=True), gpus(4)]) == 5
    assert total([gpus(0)], [gpus(4), gpus(1, sidecar=True)]) == 4


def test_sidecars_pile_up_in_their_order() -> None:
    assert total([gpus(0)], [gpus(1, sidecar=True), gpus(2), gpus(2, sidecar=True), gpus(1)]) == 4


def test_overhead_is_added_to_whatever_is_larger() -> None:
    asked = effective_requests([gpus(1)], [gpus(3)], overhead={GPU: Decimal(1), "cpu": Decimal("0.25")})
    assert asked == {GPU: Decimal(4), "cpu": Decimal("0.25")}


def test_pod_level_cpu_and_memory_stand_for_those_of_the_containers() -> None:
    container = ContainerRequest({"cpu": Decimal(8), GPU: Decimal(1)})
    asked = effective_requests([container], pod_level={"cpu": Decimal(2), "memory": GI}, overhead={"cpu": Decimal(1)})
    assert asked == {"cpu": Decimal(3), "memory": GI, GPU: Decimal(1)}


def test_pod_level_resources_know_no_gpus() -> None:
    assert effective_requests([gpus(1)], pod_level={GPU: Decimal(5)}) == {GPU: Decimal(1)}


@pytest.mark.parametrize(
    ("requests", "units"),
    [
        ({"memory": 40 * GI, "cpu": Decimal(2)}, 3),
        ({"memory": 16 * GI, "cpu": Decimal(13)}, 7),
        ({"memory": 16 * GI + 1}, 2),
        ({"cpu": Decimal("0.001")}, 1),
        ({GPU: Decimal(4)}, 0),
        ({}, 0),
    ],
)
def test_a_pod_takes_its_largest_share_rounded_up(requests: Requests, units: int) -> None:
    assert pod_units(requests, MEMORY_AND_CPU) == units


@pytest.mark.parametrize(
    ("cpu", "used", "units"), [("127", "0", 63), ("127", "1.5", 62), ("128", "0", 64), ("1", "0", 0), ("2", "5", 0)]
)
def test_a_node_has_its_smallest_share_rounded_down(cpu: str, used: str, units: int) -> None:
    offer = {"cpu": Decimal(cpu), "memory": 4096 * GI}
    assert node_units(offer, MEMORY_AND_CPU, {"cpu": Decimal(used)}) == units


def test_a_node_that_lacks_a_resource_of_the_unit_has_no_units() -> None:
    assert node_units({"cpu": Decimal(64)}, MEMORY_AND_CPU) == 0


def test_declared_units_count_every_node_whatever_its_condition() -> None:
    nodes = [a_node("a", gpus=4), a_node("b", gpus=8, ready=False), a_node("c", gpus=2, cordoned=True)]
    assert declared_units(nodes, ONE_GPU) == 14


def test_declared_units_are_what_the_nodes_have_and_not_what_they_offer_today() -> None:
    assert declared_units([a_node(gpus=8, allocatable={GPU: Decimal(6)})], ONE_GPU) == 8


def test_a_class_of_cpu_and_memory_is_counted_natively_and_one_of_gpus_is_not() -> None:
    assert counted_natively(a_class(unit=MEMORY_AND_CPU))
    assert not counted_natively(a_class())
    assert not counted_natively(a_class(unit=Unit("mixed", {"cpu": Decimal(1), GPU: Decimal(1)})))


def test_asking_for_zero_is_asking_for_nothing() -> None:
    assert not asks_for({GPU: Decimal(0)}, a_class())
    assert asks_for({GPU: Decimal(1)}, a_class())
