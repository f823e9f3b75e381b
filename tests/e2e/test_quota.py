"""A quota refuses pods after they were claimed for: the units come back, and pods are then claimed only once stored."""

from __future__ import annotations

import pytest

from common.domain import keys
from tests.controlplane.client import ApiError
from tests.controlplane.polling import until
from tests.e2e import reading
from tests.e2e.history import History
from tests.e2e.stage import Stage, Tenant, at_once

pytestmark = pytest.mark.controlplane

PODS, LET_THROUGH = 10, 2
MINUTE_S = 75.0
"""The rule is a minute; the rest is for a busy machine."""
DEADLINE_S = 30.0


def test_units_of_pods_that_a_quota_refused_come_back_within_a_minute_and_pods_are_then_claimed_once_stored(
    stage: Stage,
) -> None:
    stage.open(PODS)
    alice = stage.tenant()
    with History(stage.admin, stage.gpu_class, PODS):
        alice.hold_open(units=PODS)
        _limit_pods(alice, LET_THROUGH)
        stored = sum(at_once(lambda number: _try_to_create(alice, f"trainer-{number}"), range(PODS)))
        assert stored == LET_THROUGH
        assert len(reading.claims(alice.reservation())) == PODS
        assert "fastPathUntil" not in alice.reservation()["status"]

        until(lambda: _claimed_by_who_runs(alice), MINUTE_S, "only the pods that were stored hold units")
        assert "fastPathUntil" in alice.reservation()["status"]

        alice.admin.delete("resourcequotas", "pods", alice.namespace)
        until(lambda: _held_at_create(alice), DEADLINE_S, "every webhook claims only for stored pods")
        late = alice.create_pod("trainer-late")
        assert reading.held(late.object)
        assert reading.reason(late.object) == "Undecided"
        assert keys.CLAIM not in reading.annotations(late.object)
        alice.runs("trainer-late")
        until(lambda: _claimed_by_who_runs(alice), DEADLINE_S, "its units are claimed as well")


def _limit_pods(tenant: Tenant, most: int) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "pods", "namespace": tenant.namespace},
        "spec": {"hard": {"pods": str(most)}},
    }
    tenant.admin.create(quota)

    def counted() -> bool:
        stored = tenant.admin.get("resourcequotas", "pods", tenant.namespace)
        return bool(stored.get("status", {}).get("used"))

    until(counted, DEADLINE_S, "the quota is in force")


def _try_to_create(tenant: Tenant, name: str) -> bool:
    try:
        tenant.create_pod(name)
    except ApiError as error:
        if "exceeded quota" not in error.message:
            raise
        return False
    return True


def _claimed_by_who_runs(tenant: Tenant) -> bool:
    running = [pod for pod in tenant.pods() if reading.phase(pod) == "Running"]
    tokens = sorted(reading.annotations(pod)[keys.CLAIM] for pod in running)
    return tokens == sorted(reading.claims(tenant.reservation()))


def _held_at_create(tenant: Tenant) -> bool:
    replies = at_once(lambda _: tenant.create_pod("probe", dry_run=True), range(4), threads=4)
    return all(reading.held(reply.object) for reply in replies)
