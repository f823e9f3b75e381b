"""What the audit log says: who wrote what for which pods, and when a window let them in."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.bench import tally
from tests.bench.held import opening
from tests.bench.tally import RECONCILER, WEBHOOK, Write
from tests.bench.windows import Window, figures_of
from tests.bench.workers import WorkerError
from tests.bench.writes import row
from tests.controlplane.audit import AuditEvent, parse

NINE = datetime(2026, 12, 1, 9, tzinfo=UTC)
TENANT = "bench@example.com"
CLAIM = [
    {"op": "test", "path": "/metadata/uid", "value": "u"},
    {"op": "add", "path": "/status/claims/1-1-a", "value": 1},
]
DROP = [{"op": "remove", "path": "/status/claims/1-1-a"}]
COLUMNS = [{"op": "add", "path": "/status/used", "value": "1/1"}]


def event(
    user: str,
    verb: str,
    resource: str,
    *,
    at_ms: float = 0.0,
    took_ms: float = 4.0,
    code: int = 200,
    body: Any = None,
    answer: Any = None,
    namespace: str = "alice",
    uri: str = "/",
) -> AuditEvent:
    """One line, as the API server writes it."""
    name, _, subresource = resource.partition("/")
    received = NINE + timedelta(milliseconds=at_ms)
    return parse(
        json.dumps(
            {
                "auditID": "1",
                "stage": "ResponseComplete",
                "verb": verb,
                "user": {"username": user},
                "objectRef": {"resource": name, "subresource": subresource, "namespace": namespace, "name": "x"},
                "responseStatus": {"code": code},
                "requestURI": uri,
                "requestReceivedTimestamp": received.isoformat(),
                "stageTimestamp": (received + timedelta(milliseconds=took_ms)).isoformat(),
                "requestObject": body,
                "responseObject": answer,
            }
        )
    )


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (event(TENANT, "create", "pods"), Write.CREATE),
        (event(RECONCILER, "patch", "pods"), Write.OPEN),
        (event(RECONCILER, "patch", "pods/status"), Write.CONDITION),
        (event(WEBHOOK, "patch", "gpureservations/status", body=CLAIM), Write.CLAIM),
        (event(RECONCILER, "patch", "gpureservations/status", body=CLAIM), Write.CLAIM),
        (event(RECONCILER, "patch", "gpureservations/status", body=DROP), Write.COLUMNS),
        (event(RECONCILER, "patch", "gpureservations/status", body=COLUMNS), Write.COLUMNS),
        (event(RECONCILER, "patch", "gpureservations/status", body={"status": {}}), Write.COLUMNS),
        (event(RECONCILER, "patch", "gpuclasses/status", namespace=""), Write.COLUMNS),
        (event(RECONCILER, "create", "events"), Write.EVENT),
        (event(RECONCILER, "update", "leases"), None),
        (event("system:kube-scheduler", "create", "pods/binding"), None),
        (event("kwok", "patch", "pods/status"), None),
        (event(TENANT, "create", "gpureservations"), None),
    ],
)
def test_kinds_of_writes(found: AuditEvent, kind: Write | None) -> None:
    assert tally.kind(found) is kind


def test_only_what_was_stored_for_this_namespace_since_then_is_counted() -> None:
    events = [
        event(TENANT, "create", "pods", at_ms=1),
        event(TENANT, "create", "pods", at_ms=-1),
        event(TENANT, "create", "pods", at_ms=1, uri="/api/v1/namespaces/alice/pods?dryRun=All"),
        event(TENANT, "create", "pods", at_ms=1, namespace="bob"),
        event(RECONCILER, "patch", "pods", at_ms=1, code=409),
        event(RECONCILER, "patch", "gpuclasses/status", at_ms=1, namespace=""),
    ]
    assert tally.tally(events, "alice", NINE) == {Write.CREATE: 1, Write.COLUMNS: 1}


def test_events_and_conditions_are_not_in_the_sum() -> None:
    counted = Counter({Write.CREATE: 10, Write.OPEN: 10, Write.CLAIM: 1, Write.EVENT: 20, Write.CONDITION: 20})
    found = row("held", counted, 10)
    assert found.value == 2.1
    assert {a.label: a.value for a in found.absolutes}[Write.EVENT] == 2.0


def test_pods_let_in_at_create_have_no_gate_and_refused_claims_count_as_patches() -> None:
    gated = {"metadata": {}, "spec": {"schedulingGates": [{"name": "gpures.dev/hold"}]}}
    events = [
        event(TENANT, "create", "pods", answer={"metadata": {}, "spec": {}}),
        event(TENANT, "create", "pods", answer=gated),
        event(TENANT, "create", "pods", answer=gated, namespace="bob"),
        event(WEBHOOK, "patch", "gpureservations/status", body=CLAIM),
        event(WEBHOOK, "patch", "gpureservations/status", body=CLAIM, code=422),
        event(RECONCILER, "patch", "gpureservations/status", body=CLAIM),
    ]
    assert tally.let_in(events, "alice") == (1, 2)
    assert tally.claim_patches(events, "alice") == 2


def window(sent_ms: float, accepted_ms: float, uncertainty_ms: float = 2.0) -> Window:
    events = [
        event(RECONCILER, "patch", "gpureservations/status", at_ms=sent_ms, body=CLAIM),
        event(RECONCILER, "patch", "pods", at_ms=accepted_ms - 4, took_ms=4),
        event(RECONCILER, "patch", "pods", at_ms=accepted_ms - 4, namespace="bob"),
    ]
    return Window(opening(events, "alice", NINE, 1), uncertainty_ms)


def test_window_is_measured_from_its_instant_and_from_its_late_edge() -> None:
    found = window(6.0, 30.0)
    assert found.sent_ms == pytest.approx(6.0)
    assert found.accepted_ms == pytest.approx(30.0)
    assert found.after_late_edge_ms == pytest.approx(4.0)


def test_window_whose_pods_were_not_all_opened_is_no_measurement() -> None:
    with pytest.raises(WorkerError, match="0 of 1 pods"):
        opening([event(RECONCILER, "patch", "gpureservations/status", body=CLAIM)], "alice", NINE, 1)


def test_the_worst_window_is_what_counts() -> None:
    windows = [window(3.0, 20.0) for _ in range(49)] + [window(9.0, 80.0)]
    rows = {found.name.partition(",")[0]: found for found in figures_of(windows, [1.0, 2.0])}
    assert rows["first patch sent"].count == 50
    assert rows["earliest patch"].value == pytest.approx(3.0)
    assert rows["pod let in"].value == pytest.approx(80.0)
    assert [str(found.verdict) for found in figures_of(windows, [1.0])] == ["MISSED", "", "met", "MISSED"]
