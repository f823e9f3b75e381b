"""Pods that bring their own way onto reserved nodes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from common.domain import keys
from tests.controlplane.client import ApiError
from tests.e2e.stage import AT_ONCE, Tenant, at_once, refusal


def fifty_forgeries(tenant: Tenant, token: str) -> Sequence[ApiError]:
    """Each way in turn: the taint's key with and without its value, every key, a claim copied from a pod, and both."""
    exact = {"key": keys.TAINT, "value": tenant.stage.gpu_class, "effect": "NoSchedule"}
    copied = {keys.CLAIM: token}
    ways: Sequence[dict[str, Any]] = (
        {"spec": {"tolerations": [exact]}},
        {"spec": {"tolerations": [{"key": keys.TAINT, "operator": "Exists"}]}},
        {"spec": {"tolerations": [{"operator": "Exists"}]}},
        {"annotations": copied},
        {"annotations": copied, "spec": {"tolerations": [exact]}},
    )

    def forge(number: int) -> ApiError:
        return refusal(partial(tenant.create_pod, f"forged-{number:02}", **ways[number % len(ways)]))

    return at_once(forge, range(AT_ONCE))
