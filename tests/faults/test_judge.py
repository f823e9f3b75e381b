"""The auditor complains where it should: histories made up by hand, each with one thing wrong."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.faults import facts
from tests.faults.facts import Raw
from tests.faults.judge import STORED, Judge
from tests.faults.table import FAULTS, STARRED

NINE = datetime(2026, 12, 1, 9, tzinfo=UTC)
TEN = NINE + timedelta(hours=1)
CLAIMED = {"1-1-a": 1}


class Told:
    """A history: each call is the next version, seconds after nine."""

    def __init__(self, capacity: int = 4) -> None:
        self.judge = Judge("h100", capacity)
        self.version = 0
        self.ending: set[str] = set()

    def broken(self) -> Sequence[str]:
        return [violation.promise for violation in self.judge.violations]

    def reservation(self, name: str = "sprint", claims: Mapping[str, int] | None = None, units: int = 2) -> None:
        granted = {"start": _text(NINE), "end": _text(TEN), "units": units}
        status = {"phase": "Active", "granted": granted, "claims": dict(claims or {})}
        self._take({"metadata": {"name": name}, "spec": {"gpuClass": "h100"}, "status": status}, 0)

    def pod(
        self,
        token: str = "1-1-a",
        *,
        node: str = "",
        held: bool = False,
        at_s: int = 1,
        kind: str = "MODIFIED",
        **meta: Any,
    ) -> None:
        let_in = {"annotations": {facts.CLAIM: token}, "labels": {facts.NAME: "sprint"}}
        written = {"managedFields": [{"time": _text(NINE + timedelta(seconds=at_s))}]}
        metadata = {"name": "trainer-0", **written, **({} if held else let_in), **meta}
        spec: dict[str, Any] = {"containers": [{"resources": {"limits": {facts.GPU: "1"}}}], "nodeName": node}
        spec |= {"schedulingGates": [{"name": facts.GATE}]} if held else {"tolerations": [{"key": facts.TAINT}]}
        self._take({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}, at_s, kind)

    def _take(self, raw: Raw, at_s: int, kind: str = "MODIFIED") -> None:
        self.version += 1
        common = {"uid": f"uid-{raw['metadata']['name']}", "namespace": "alice", "resourceVersion": str(self.version)}
        whole = {**raw, "metadata": {**common, **raw["metadata"]}}
        seen = facts.read(kind, whole, NINE + timedelta(seconds=at_s), float(at_s))
        self.judge.take(seen, self.ending, frozenset({"gpu-0"}))


def _text(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def test_pod_that_is_let_in_runs_and_is_ended_by_its_owner_breaks_nothing() -> None:
    told = Told()
    told.reservation()
    told.pod(held=True)
    told.reservation(claims=CLAIMED)
    told.pod()
    told.pod(node="gpu-0")
    told.ending.add("uid-trainer-0")
    told.pod(node="gpu-0", kind="DELETED")
    told.reservation()
    assert told.broken() == []


def test_entry_without_a_standing_claim_breaks_i1() -> None:
    told = Told()
    told.reservation()
    told.pod(held=True)
    told.pod()
    assert told.broken() == ["I1"]


def test_held_pod_on_a_reserved_node_breaks_i1() -> None:
    told = Told()
    told.pod(held=True, node="gpu-0")
    assert told.broken() == ["I1"]


def test_entry_long_after_the_window_breaks_i1() -> None:
    told = Told()
    told.reservation(claims=CLAIMED)
    told.pod(held=True)
    told.pod(at_s=3620)
    assert told.broken() == ["I1"]


def test_more_claimed_than_granted_breaks_i2() -> None:
    told = Told()
    told.reservation(claims={"1-1-a": 1, "1-2-b": 2})
    assert told.broken() == ["I2"]


def test_more_granted_than_there_is_breaks_i2() -> None:
    told = Told(capacity=3)
    told.reservation()
    told.reservation("rival")
    assert set(told.broken()) == {"I2"}


def test_entry_before_the_window_breaks_i3() -> None:
    told = Told()
    told.reservation(claims=CLAIMED)
    told.pod(held=True, at_s=-9)
    told.pod(at_s=-1)
    assert told.broken() == ["I3"]


def test_forgery_that_is_let_in_breaks_i5() -> None:
    told = Told()
    told.reservation(claims=CLAIMED)
    told.pod(labels={facts.ROLE: "attacker", facts.NAME: "sprint"})
    assert told.broken() == ["I5"]


def test_forgery_that_is_stored_and_held_is_told_apart() -> None:
    told = Told()
    told.pod(held=True, labels={facts.ROLE: "attacker"})
    told.pod(held=True, labels={facts.ROLE: "attacker"})
    assert told.broken() == [STORED]


def test_end_by_somebody_else_inside_the_window_breaks_i8() -> None:
    told = Told()
    told.reservation(claims=CLAIMED)
    told.pod(node="gpu-0")
    told.pod(node="gpu-0", deletionTimestamp=_text(NINE))
    told.pod(node="gpu-0", kind="DELETED")
    assert told.broken() == ["I8"]


def test_claim_that_a_living_pod_loses_breaks_i8() -> None:
    told = Told()
    told.reservation(claims=CLAIMED)
    told.pod(node="gpu-0")
    told.reservation()
    assert told.broken() == ["I8"]


def test_claim_of_a_pod_that_never_came_is_an_orphan() -> None:
    told = Told()
    told.reservation(claims={"1-1-a": 1, "1-1-b": 1})
    told.pod()
    assert told.judge.orphans() == {"1-1-b": 1}


def test_table_has_every_fault_of_the_matrix_once() -> None:
    assert [fault.id for fault in FAULTS] == [f"F{number}" for number in range(1, 43)]
    assert " ".join(fault.id for fault in STARRED) == "F1 F2 F3 F6 F11 F14 F15 F19 F25 F29 F37"
    assert all((fault.stage is None) == bool(fault.not_run) for fault in FAULTS)
