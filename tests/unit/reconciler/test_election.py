"""Who leads, step by step."""

import json
from datetime import UTC, datetime

from reconciler.election import LeaseRecord, Sighting, Step, Timing, next_step, sight, still_leads
from reconciler.lease import decode_lease, lease_body, lease_operations

TIMING = Timing()
OTHER = Sighting(LeaseRecord("other", 3, "10"), seen_s=100.0)


def test_without_a_lease_one_is_created() -> None:
    assert next_step("me", None, TIMING, 0.0) is Step.CREATE


def test_a_lease_that_changes_is_left_alone() -> None:
    assert next_step("me", OTHER, TIMING, 103.9) is Step.WAIT


def test_a_lease_that_did_not_change_for_its_whole_duration_is_taken() -> None:
    assert next_step("me", OTHER, TIMING, 104.0) is Step.TAKE


def test_a_released_lease_is_taken_at_once() -> None:
    assert next_step("me", Sighting(LeaseRecord("", 3, "10"), 100.0), TIMING, 100.0) is Step.TAKE


def test_the_holder_renews() -> None:
    assert next_step("other", OTHER, TIMING, 500.0) is Step.RENEW


def test_seeing_the_same_version_again_does_not_restart_the_wait() -> None:
    assert sight(OTHER, OTHER.record, 103.0) == OTHER


def test_a_new_version_restarts_the_wait() -> None:
    assert sight(OTHER, LeaseRecord("other", 3, "11"), 103.0).seen_s == 103.0


def test_a_leader_stops_before_anyone_may_follow() -> None:
    assert still_leads(100.0, TIMING, 102.9)
    assert not still_leads(100.0, TIMING, 103.0)
    assert TIMING.renew_s < TIMING.lease_s


def test_who_never_renewed_does_not_lead() -> None:
    assert not still_leads(None, TIMING, 0.0)


def test_taking_a_lease_counts_a_transition_under_the_version_that_was_seen() -> None:
    now = datetime(2026, 12, 1, 9, 0, 0, 123456, tzinfo=UTC)
    guard, spec = lease_operations(OTHER.record, "me", 4, now, taken=True)
    assert guard == {"op": "replace", "path": "/metadata/resourceVersion", "value": "10"}
    assert spec["value"]["leaseTransitions"] == 4
    assert spec["value"]["renewTime"] == "2026-12-01T09:00:00.123456Z"


def test_a_lease_without_a_holder_is_read_as_released() -> None:
    body = lease_body("gpures-system", "", 4, datetime(2026, 12, 1, tzinfo=UTC))
    body["metadata"]["resourceVersion"] = "7"
    assert decode_lease(json.dumps(body).encode()) == LeaseRecord("", 1, "7", "2026-12-01T00:00:00.000000Z")
