"""Every row of the fence's table on a real cluster, with the webhook up and with it down."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.component.builders import DEADLINE_S
from tests.component.fence_scene import Attack, Scene, scene_of
from tests.component.fence_table import ATTACKS
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.polling import until
from tests.controlplane.product import Product

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def scene(control_plane: ControlPlane) -> Iterator[Scene]:
    with Product(control_plane, webhook_count=1) as product, scene_of(product) as opened:
        yield opened


@pytest.fixture(scope="module", params=[True, False], ids=["webhook-up", "webhook-down"])
def webhook_up(request: pytest.FixtureRequest, scene: Scene) -> Iterator[bool]:
    up: bool = request.param
    if up:
        yield up
        return
    with scene.product.webhooks_stopped():
        yield up


@pytest.mark.parametrize("attack", ATTACKS, ids=[f"{row.threat} {row.deed}" for row in ATTACKS])
def test_nobody_gets_through(scene: Scene, webhook_up: bool, attack: Attack) -> None:
    verdict, told = attack.try_it(scene)
    assert attack.expected(webhook_up=webhook_up) in told
    assert verdict == attack.verdict_when(webhook_up=webhook_up), told


def test_the_pods_of_the_attacker_stand_as_before(scene: Scene, webhook_up: bool) -> None:
    until(lambda: scene.mallory.pod("running")["status"]["phase"] == "Running", DEADLINE_S, "the admitted pod runs")
    waiting, bare = scene.mallory.pod("waiting"), scene.mallory.pod("bare")
    assert [gate["name"] for gate in waiting["spec"]["schedulingGates"]] == ["gpures.dev/hold"]
    assert "nodeName" not in bare["spec"]
