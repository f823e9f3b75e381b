"""What attackers try, and what becomes of it: the table that `docs/reference/fence.md` is made from."""

from __future__ import annotations

from tests.component.fence_attacks_created import CREATED
from tests.component.fence_attacks_objects import BOUND, OBJECTS, STOLEN
from tests.component.fence_attacks_owners import OWNED
from tests.component.fence_attacks_pods import PODS
from tests.component.fence_forms import FORMS
from tests.component.fence_scene import Attack

ATTACKS: list[Attack] = sorted(
    [*PODS, *CREATED, *OWNED, *BOUND, *OBJECTS, *STOLEN], key=lambda row: int(row.threat[1:])
)
THREATS = {
    "T1": "brings the reserved toleration",
    "T2": "takes the gate out",
    "T3": "forges or copies our keys",
    "T4": "edits after admission",
    "T5": "comes by way of an owner",
    "T6": "DaemonSet",
    "T7": "static and mirror pods",
    "T8": "names a node",
    "T9": "brings a scheduler",
    "T10": "GPUs without asking",
    "T11": "GPUs by another name",
    "T12": "arithmetic",
    "T13": "debug containers",
    "T14": "namespaces",
    "T15": "our registrations",
    "T17": "giant pods",
    "T27": "a stolen token of ours",
    "T28": "confused owners",
    "T29": "turns preemption on a rival",
}
ELSEWHERE = {
    "T16": "calls to the webhook from elsewhere are stopped by the chart's NetworkPolicy, not by a policy",
}
__all__ = ["ATTACKS", "ELSEWHERE", "FORMS", "THREATS"]
