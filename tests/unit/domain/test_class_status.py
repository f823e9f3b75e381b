"""The conditions of a class: Ready, Short, Conflict."""

from dataclasses import replace

from common.domain import class_status
from common.domain.gpu_class import ClassUnits, GpuClass
from common.domain.reservation import Condition
from tests.support.builders import NINE, a_class, at

WELL = ClassUnits(physical=8, schedulable=8, reserved=4)


def found(
    units: ClassUnits = WELL, nodes: int = 1, rival: str | None = None, gpu_class: GpuClass | None = None
) -> dict[str, Condition]:
    return {c.type: c for c in class_status.conditions(gpu_class or a_class(), units, nodes, rival, NINE)}


def test_a_class_with_nodes_is_ready() -> None:
    assert {type_: c.status for type_, c in found().items()} == {"Ready": "True", "Short": "False", "Conflict": "False"}
    assert found(nodes=2)["Ready"].message == "2 nodes"


def test_a_class_without_nodes_names_the_taint_that_it_looks_for() -> None:
    ready = found(nodes=0)["Ready"]
    assert (ready.status, ready.reason) == ("False", "NoNodes")
    assert "gpu-class-reservation=h100" in ready.message


def test_a_class_whose_nodes_have_none_of_its_resource_asks_whether_it_is_spelt_right() -> None:
    condition = class_status.conditions(a_class(), ClassUnits(), 2, None, NINE)[0]
    assert (condition.status, condition.reason) == ("False", "NoUnits")
    assert "nvidia.com/gpu" in condition.message


def test_a_class_is_short_when_reserved_units_are_not_on_ready_nodes() -> None:
    short = found(ClassUnits(physical=8, schedulable=5, unreserved=2, reserved=4))["Short"]
    assert (short.status, short.message) == ("True", "1 of 4 reserved units are not on ready nodes")


def test_of_two_classes_with_one_label_the_newer_one_decides_nothing() -> None:
    conflict = found(rival="older")
    assert (conflict["Conflict"].status, conflict["Ready"].status) == ("True", "False")
    assert "older" in conflict["Conflict"].message


def test_a_condition_keeps_its_instant_while_its_status_stands() -> None:
    before = a_class(conditions=tuple(replace(c, since=at(5)) for c in found().values()))
    now = found(nodes=0, gpu_class=before)
    assert (now["Short"].since, now["Ready"].since) == (at(5), NINE)
