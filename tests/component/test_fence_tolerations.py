"""Each form of a toleration is refused exactly where the real scheduler would let it onto a reserved node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal

import pytest

from tests.component.fence_forms import FORMS, written
from tests.component.fence_scene import Scene, scene_of
from tests.controlplane.client import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.controlplane.product import Product
from tests.e2e import reading

pytestmark = pytest.mark.controlplane

LEFT_ALONE = "kube-public"
DEADLINE_S = 60.0
INVALID, FORBIDDEN, NOBODY_ANSWERS = 422, 403, 500
Answer = Literal["stored", "refused", "invalid"]
Lands = Literal["lands", "stays off", "invalid"]
NAMES = [json.dumps(form) for form in FORMS]


@pytest.fixture(scope="module")
def scene(control_plane: ControlPlane) -> Iterator[Scene]:
    with Product(control_plane, webhook_count=1) as product, scene_of(product) as opened:
        yield opened


@pytest.fixture(scope="module")
def scheduler(scene: Scene) -> Iterator[Mapping[str, Lands]]:
    """What the scheduler makes of each form, in a namespace that no policy of ours looks at."""
    made = {name: f"form-{number}" for number, name in enumerate(NAMES)}
    until(lambda: scene.admin.find("serviceaccounts", "default", LEFT_ALONE), DEADLINE_S, "default service account")
    invalid = {name for name, form in zip(NAMES, FORMS, strict=True) if not _stored(scene, made[name], form)}

    def seen(name: str) -> Lands | None:
        pod = scene.admin.get("pods", made[name], LEFT_ALONE)
        if reading.node(pod):
            return "lands"
        return "stays off" if reading.condition(pod, "PodScheduled").get("status") == "False" else None

    yield {
        name: "invalid" if name in invalid else until(partial(seen, name), DEADLINE_S, f"scheduler on {name}")
        for name in NAMES
    }
    for name in set(NAMES) - invalid:
        scene.admin.delete("pods", made[name], LEFT_ALONE, grace_s=0)


def _stored(scene: Scene, name: str, form: JsonObject) -> bool:
    among = {"key": "kubernetes.io/hostname", "operator": "In", "values": scene.stage.nodes}
    term = {"nodeSelectorTerms": [{"matchExpressions": [among]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}}
    manifest = _manifest(scene, form, affinity=affinity)
    manifest["metadata"] = {"name": name, "namespace": LEFT_ALONE}
    return _answer(lambda: scene.admin.create(manifest)) == "stored"


def _manifest(scene: Scene, form: JsonObject, **spec: Any) -> JsonObject:
    """A pod that asks for a GPU and names no class."""
    tolerations = [written(form, scene.gpu_class)]
    return scene.mallory.manifest("form", gpu_class="", spec={"tolerations": tolerations, **spec})


def _answer(send: Callable[[], object]) -> Answer:
    try:
        send()
    except ApiError as error:
        if error.code not in (INVALID, FORBIDDEN, NOBODY_ANSWERS):
            raise
        return "invalid" if error.code == INVALID else "refused"
    return "stored"


def _same(ours: Answer, theirs: Lands) -> bool:
    # What is no toleration may be refused before anybody notices that.
    return ours != "stored" if theirs == "invalid" else (ours == "refused") is (theirs == "lands")


def test_the_scheduler_knows_every_verdict(scheduler: Mapping[str, Lands]) -> None:
    assert set(scheduler.values()) == {"lands", "stays off", "invalid"}


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_a_form_added_to_a_stored_pod_is_judged_as_the_scheduler_judges(
    scene: Scene, scheduler: Mapping[str, Lands], form: JsonObject
) -> None:
    had = scene.mallory.pod("bare")["spec"]["tolerations"]
    patch = {"spec": {"tolerations": [*had, written(form, scene.gpu_class)]}}
    ours = _answer(lambda: scene.tenant.patch("pods", "bare", patch, scene.namespace, dry_run=True))
    assert _same(ours, scheduler[json.dumps(form)]), (ours, scheduler[json.dumps(form)])


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_a_form_at_creation_is_judged_as_the_scheduler_judges(
    scene: Scene, scheduler: Mapping[str, Lands], form: JsonObject
) -> None:
    ours = _answer(lambda: scene.tenant.create(_manifest(scene, form), dry_run=True))
    assert _same(ours, scheduler[json.dumps(form)]), (ours, scheduler[json.dumps(form)])


def test_no_form_that_lands_is_stored_while_the_webhook_is_down(scene: Scene, scheduler: Mapping[str, Lands]) -> None:
    with scene.product.webhooks_stopped():
        answers = {
            name: _answer(partial(scene.tenant.create, _manifest(scene, form), dry_run=True))
            for name, form in zip(NAMES, FORMS, strict=True)
        }
    assert {name for name in NAMES if scheduler[name] == "lands" and answers[name] != "refused"} == set()
    # The guard is asked about the reserved key, whatever its effect; without an answer it refuses.
    strict = {name for name in NAMES if scheduler[name] == "stays off" and answers[name] != "stored"}
    assert {json.loads(name)["key"] for name in strict} <= {"gpu-class-reservation"}
