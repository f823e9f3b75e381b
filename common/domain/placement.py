"""Which nodes a pod may go to by its own node selector and required node affinity.

Source: component-helpers `nodeaffinity.GetRequiredNodeAffinity` of Kubernetes 1.37.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from common.domain import texts
from common.domain.pod import Expression, NodeTerm, NodeView, Placement
from common.domain.reasons import Hold, Reason

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """A schedulable node of the class and the units that nobody uses there."""

    node: NodeView
    free: int


def allows(placement: Placement, node: NodeView) -> bool:
    if any(node.labels.get(key) != value for key, value in placement.selector.items()):
        return False
    if placement.terms is None:
        return True
    return any(_term_allows(term, node) for term in placement.terms)


def obstacle(placement: Placement, units: int, rooms: Sequence[NodeRoom], class_label: str) -> Hold | None:
    """Why no node can take the pod now; None when one can. `rooms` are the class's schedulable nodes."""
    if any(room.free >= units and allows(placement, room.node) for room in rooms):
        return None
    constrained = bool(placement.selector) or placement.terms is not None
    if not constrained:
        most = max((room.free for room in rooms), default=0)
        sentence = (
            f"the pod asks {units} {class_label} on one node and the most that is free on one is {max(0, most)}; "
            "starts when a node has room"
        )
        return Hold(Reason.WAITING_FOR_UNITS, sentence)
    wanted = _constraint(placement)
    if any(allows(placement, room.node) for room in rooms):
        return Hold(
            Reason.WAITING_FOR_NODE,
            f"the nodes that {wanted} allows are short of {class_label} now; a wider constraint could use the others",
        )
    return Hold(Reason.NO_MATCHING_NODE, f"{wanted} allows none of the {class_label} nodes that are ready")


def _term_allows(term: NodeTerm, node: NodeView) -> bool:
    """An empty term matches nothing."""
    if not term.labels and not term.fields:
        return False
    return all(_holds(e, node.labels.get(e.key)) for e in term.labels) and all(
        _holds(e, node.name if e.key == "metadata.name" else None) for e in term.fields
    )


def _holds(expression: Expression, value: str | None) -> bool:
    match expression.operator:
        case "In":
            return value is not None and value in expression.values
        case "NotIn":
            return value is None or value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(expression, value)
        case _:
            return False


def _compares(expression: Expression, value: str | None) -> bool:
    have = _integer(value or "")
    bound = _integer(expression.values[0]) if len(expression.values) == 1 else None
    if have is None or bound is None:
        return False
    return have > bound if expression.operator == "Gt" else have < bound


def _integer(text: str) -> int | None:
    """As `strconv.ParseInt` reads it, which knows neither `81_920` nor blanks."""
    if not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _constraint(placement: Placement) -> str:
    pairs = [f"{key}={value}" for key, value in sorted(placement.selector.items())]
    text = f"nodeSelector {', '.join(pairs)}" if pairs else "its required node affinity"
    return texts.clip(text, 200)
