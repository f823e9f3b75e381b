"""Where a pod may go by its own constraints (peer scenarios 35 and 36)."""

import pytest

from common.domain.placement import NodeRoom, allows, obstacle
from common.domain.pod import Expression, NodeTerm, Placement
from common.domain.reasons import Hold, Reason
from tests.support.builders import a_node

NODE = a_node("gpu-7", labels={"zone": "a", "memory": "81920", "zero": "+0", "odd": "80Gi", "under": "81_920"})


def affine(*terms: NodeTerm) -> Placement:
    return Placement(terms=terms)


def on(key: str, operator: str, *values: str) -> NodeTerm:
    return NodeTerm((Expression(key, operator, values),))


@pytest.mark.parametrize(
    ("term", "matches"),
    [
        (on("zone", "In", "a", "b"), True),
        (on("zone", "In", "b"), False),
        (on("rack", "In", "b"), False),
        (on("zone", "NotIn", "b"), True),
        (on("zone", "NotIn", "a"), False),
        (on("rack", "NotIn", "a"), True),
        (on("zone", "Exists"), True),
        (on("rack", "Exists"), False),
        (on("rack", "DoesNotExist"), True),
        (on("zone", "DoesNotExist"), False),
        (on("memory", "Gt", "40000"), True),
        (on("memory", "Gt", "81920"), False),
        (on("memory", "Lt", "81921"), True),
        (on("zero", "Gt", "-1"), True),
        (on("odd", "Gt", "40000"), False),
        (on("under", "Gt", "40000"), False),
        (on("rack", "Gt", "1"), False),
        (on("memory", "Gt", "40_000"), False),
        (on("memory", "Gt", " 1"), False),
        (on("memory", "Gt"), False),
        (on("memory", "Lt", "9223372036854775808"), False),
        (on("zone", "Matches", "a"), False),
    ],
)
def test_an_expression_is_judged_as_the_scheduler_judges(term: NodeTerm, *, matches: bool) -> None:
    assert allows(affine(term), NODE) is matches


def test_terms_are_alternatives_and_expressions_of_a_term_hold_together() -> None:
    both = NodeTerm((Expression("zone", "In", ("a",)), Expression("memory", "Lt", ("5",))))
    assert not allows(affine(both), NODE)
    assert allows(affine(both, on("zone", "Exists")), NODE)


def test_an_empty_term_matches_nothing() -> None:
    assert not allows(affine(NodeTerm()), NODE)
    assert not allows(affine(), NODE)


def test_a_field_names_one_node() -> None:
    field = NodeTerm(fields=(Expression("metadata.name", "In", ("gpu-7",)),))
    assert allows(affine(field), NODE)
    assert not allows(affine(field), a_node("gpu-8"))


def test_selector_and_affinity_hold_together() -> None:
    assert allows(Placement({"zone": "a"}, (on("zone", "Exists"),)), NODE)
    assert not allows(Placement({"zone": "b"}, (on("zone", "Exists"),)), NODE)


def reason(placement: Placement, units: int, *rooms: NodeRoom) -> Reason | None:
    found = obstacle(placement, units, rooms, "h100")
    return found.reason if isinstance(found, Hold) else None


def test_a_node_with_room_that_is_allowed_is_no_obstacle() -> None:
    assert reason(Placement({"zone": "a"}), 2, NodeRoom(NODE, 2)) is None


def test_without_a_constraint_the_pod_waits_for_units_on_one_node() -> None:
    halves = (NodeRoom(a_node("a"), 1), NodeRoom(a_node("b"), 1))
    assert reason(Placement(), 2, *halves) is Reason.WAITING_FOR_UNITS
    assert reason(Placement(), 1, *halves) is None


def test_a_constraint_that_allows_only_full_nodes_waits_for_those() -> None:
    rooms = (NodeRoom(NODE, 0), NodeRoom(a_node("b"), 8))
    assert reason(Placement({"zone": "a"}), 1, *rooms) is Reason.WAITING_FOR_NODE


def test_a_constraint_that_allows_no_node_of_the_class_is_named() -> None:
    found = obstacle(Placement({"zone": "x", "disk": "ssd"}), 1, [NodeRoom(NODE, 8)], "h100")
    assert found is not None
    assert found.reason is Reason.NO_MATCHING_NODE
    assert "nodeSelector disk=ssd, zone=x" in found.sentence


def test_an_affinity_is_named_as_such() -> None:
    found = obstacle(affine(on("zone", "In", "x")), 1, [NodeRoom(NODE, 8)], "h100")
    assert found is not None
    assert "its required node affinity" in found.sentence
