"""Nobody brings their own way onto reserved nodes while webhooks are up; for the rest see `test_webhook_down.py`."""

from __future__ import annotations

import pytest

from common.domain import keys
from tests.e2e import reading
from tests.e2e.forging import fifty_forgeries
from tests.e2e.stage import Stage

pytestmark = pytest.mark.controlplane


def test_fifty_forged_pods_at_once_are_refused_with_a_sentence(either_stage: Stage) -> None:
    stage = either_stage.open(4)
    alice = stage.tenant()
    alice.hold_open(units=4)
    token = reading.annotations(alice.create_pod("trainer-0").object)[keys.CLAIM]
    refused = fifty_forgeries(alice, token)

    assert {error.code for error in refused} == {403}
    by, _, _ = zip(*(error.message.partition(" denied the request: ") for error in refused), strict=True)
    assert {*by} == {'admission webhook "guard.gpures.dev"'}
    sentences = {error.message.partition(" denied the request: ")[2] for error in refused}
    assert {sentence.partition("(")[0].partition(";")[0] for sentence in sentences} == {
        "toleration gpu-class-reservation is added by the reservation system when a reservation opens",
        "the pod asks for reserved GPUs and tolerates every taint ",
        "annotation gpures.dev/claim is written by the reservation system only",
    }
    assert [pod["metadata"]["name"] for pod in alice.pods()] == ["trainer-0"]
    assert reading.claims(alice.reservation()) == {token: 1}
