"""The check policy on a real API server: a toleration needs a claim, and a claim fits its pod."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from common.adapters.wire import decode_pod
from common.domain.gpu_class import Unit
from common.domain.units import pod_units
from tests.component.builders import CLASSES, DEADLINE_S, checked, class_in_force, container, pod, sidecar, toleration
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.install import install
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

NAME = "check-h100"
LABEL = {"gpu-class": NAME}
FORBIDDEN = 403
WILDCARD = {"operator": "Exists"}


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> ApiClient:
    install(control_plane.admin)
    return control_plane.admin


@pytest.fixture
def enforced(admin: ApiClient) -> Iterator[str]:
    with class_in_force(admin, NAME) as name:
        yield name


def judge(admin: ApiClient, manifest: JsonObject, namespace: str = "default") -> str:
    """Say ok, or the sentence of the refusal."""
    try:
        admin.create(manifest, namespace=namespace, dry_run=True)
    except ApiError as error:
        if error.code != FORBIDDEN:
            raise
        return error.message
    return "ok"


def let_in(token: str = "1764582000-1-9f3c", **fields: Any) -> JsonObject:
    """A pod as it looks after the webhook let it in."""
    return pod(labels=LABEL, annotations={"gpures.dev/claim": token}, tolerations=[toleration(NAME)], **fields)


def test_a_pod_with_toleration_and_claim_is_good(admin: ApiClient, enforced: str) -> None:
    assert judge(admin, let_in()) == "ok"


def test_a_pod_without_either_is_good(admin: ApiClient, enforced: str) -> None:
    assert judge(admin, pod(labels=LABEL)) == "ok"


@pytest.mark.parametrize(
    "forged",
    [
        toleration(NAME),
        {"key": "gpu-class-reservation", "value": NAME},
        {"key": "gpu-class-reservation", "operator": "Equal", "value": NAME, "effect": ""},
        {"key": "gpu-class-reservation", "operator": "Exists"},
        {"key": "gpu-class-reservation", "operator": "Exists", "effect": "NoSchedule"},
        WILDCARD,
        {"operator": "Exists", "effect": "NoSchedule"},
    ],
    ids=str,
)
def test_a_toleration_that_reaches_the_taint_needs_a_claim(admin: ApiClient, enforced: str, forged: JsonObject) -> None:
    others = [{"key": "nvidia.com/gpu", "operator": "Exists"}]
    sentence = judge(admin, pod(labels=LABEL, tolerations=[*others, forged]))
    assert "tolerates the taint gpu-class-reservation=check-h100 without a claim" in sentence


@pytest.mark.parametrize(
    "harmless",
    [
        {"key": "gpu-class-reservation", "value": "another", "effect": "NoSchedule"},
        {"key": "gpu-class-reservation", "operator": "Exists", "effect": "NoExecute"},
        {"key": "gpu-class", "operator": "Exists"},
        {"operator": "Exists", "effect": "NoExecute"},
    ],
    ids=str,
)
def test_a_toleration_that_does_not_reach_the_taint_needs_none(
    admin: ApiClient, enforced: str, harmless: JsonObject
) -> None:
    assert judge(admin, pod(labels=LABEL, tolerations=[harmless])) == "ok"


@pytest.mark.parametrize("reserved", [toleration(NAME), WILDCARD], ids=["exact", "wildcard"])
def test_node_agents_that_ask_for_no_unit_are_left_alone(admin: ApiClient, enforced: str, reserved: JsonObject) -> None:
    assert judge(admin, pod(containers=[container(cpu="100m")], tolerations=[reserved])) == "ok"


def test_a_claim_of_another_class_opens_no_nodes(admin: ApiClient, enforced: str) -> None:
    manifest = let_in()
    manifest["metadata"]["labels"] = {"gpu-class": "another"}
    assert "without a claim of that class" in judge(admin, manifest)


def test_the_sentence_says_what_to_do(admin: ApiClient, enforced: str) -> None:
    sentence = judge(admin, pod(containers=[container(gpu="2")], tolerations=[toleration(NAME)]))
    assert (
        "the pod asks for 2 GPU and tolerates the taint gpu-class-reservation=check-h100 "
        "without a claim of that class: take the toleration out and label the pod gpu-class=check-h100; "
        "the toleration is added when a reservation is open"
    ) in sentence


@pytest.mark.parametrize("token", ["1764582000-2-9f3c", "1764582000-0-9f3c", "1764582000-9f3c", "one", "1--1"])
def test_a_claim_of_other_units_is_refused(admin: ApiClient, enforced: str, token: str) -> None:
    assert f"its claim {token} is not for so many" in judge(admin, let_in(token))


def counted(manifest: JsonObject, unit: Unit) -> int:
    """Units by the count that the webhook mints tokens with."""
    return pod_units(decode_pod(json.dumps(manifest).encode()).requests, unit)


SHAPES: list[tuple[str, JsonObject]] = [
    ("two containers add up", {"containers": [container("a", gpu="1"), container("b", gpu="2")]}),
    (
        "a larger init container counts alone",
        {"containers": [container(gpu="1")], "initContainers": [container("setup", gpu="4")]},
    ),
    (
        "a smaller init container counts for nothing",
        {"containers": [container(gpu="3")], "initContainers": [container("setup", gpu="2")]},
    ),
    (
        "a sidecar stays with the containers",
        {"containers": [container(gpu="3")], "initContainers": [sidecar("agent", gpu="1")]},
    ),
    (
        "a sidecar before an init container counts with it",
        {
            "containers": [container(gpu="1")],
            "initContainers": [sidecar("agent", gpu="2"), container("setup", gpu="3")],
        },
    ),
    (
        "a sidecar after an init container does not",
        {
            "containers": [container(gpu="1")],
            "initContainers": [container("setup", gpu="3"), sidecar("agent", gpu="1")],
        },
    ),
    ("a quantity may have a suffix", {"containers": [container(gpu="1k")]}),
]


@pytest.mark.parametrize("shape", [shape for _, shape in SHAPES], ids=[name for name, _ in SHAPES])
def test_units_are_counted_as_the_webhook_counts(admin: ApiClient, enforced: str, shape: JsonObject) -> None:
    units = counted(let_in(**shape), Unit())
    assert judge(admin, let_in(f"1764582000-{units}-a", **shape)) == "ok"
    assert "is not for so many" in judge(admin, let_in(f"1764582000-{units + 1}-a", **shape))


SLICES: list[tuple[str, JsonObject]] = [
    ("the largest of the resources counts", {"containers": [container(memory="40Gi", cpu="2")]}),
    ("each is rounded up", {"containers": [container(memory="16Gi", cpu="2001m")]}),
    ("thousandths add up", {"containers": [container("a", cpu="1500m"), container("b", cpu="2500m")]}),
    ("large numbers are exact", {"containers": [container(memory="4096Gi", cpu="1")]}),
    ("one byte over is a unit more", {"containers": [container(memory="4398046511105", cpu="1")]}),
    (
        "the pod's own request stands for its containers'",
        {"containers": [container(cpu="1")], "resources": {"requests": {"cpu": "8"}, "limits": {"cpu": "8"}}},
    ),
]


@pytest.mark.parametrize("shape", [shape for _, shape in SLICES], ids=[name for name, _ in SLICES])
def test_units_of_native_resources_are_counted_as_the_webhook_counts(
    admin: ApiClient, enforced: str, shape: JsonObject
) -> None:
    slices = {"memory": "16Gi", "cpu": "2"}
    admin.patch(CLASSES, NAME, {"spec": {"unit": {"resources": {"nvidia.com/gpu": None, **slices}}}})
    until(lambda: judge(admin, pod(tolerations=[WILDCARD])) == "ok", DEADLINE_S, "the class counts native resources")
    units = counted(let_in(**shape), Unit("slice", {"memory": Decimal(16 * 2**30), "cpu": Decimal(2)}))
    assert judge(admin, let_in(f"1764582000-{units}-a", **shape)) == "ok"
    assert "is not for so many" in judge(admin, let_in(f"1764582000-{units + 1}-a", **shape))


def test_units_of_every_short_start_are_counted_as_the_webhook_counts(admin: ApiClient, enforced: str) -> None:
    steps = [(kind, str(gpus)) for kind in (container, sidecar) for gpus in (0, 1, 3)]
    for number, start in enumerate(itertools.product(steps, repeat=3)):
        inits = [kind(f"i{place}", gpu=gpus) for place, (kind, gpus) in enumerate(start)]
        shape: JsonObject = {"containers": [container(gpu=str(1 + number % 3))], "initContainers": inits}
        units = counted(let_in(**shape), Unit())
        assert judge(admin, let_in(f"1764582000-{units}-a", **shape)) == "ok", shape


def test_the_exact_toleration_is_a_forgery_where_native_resources_are_counted(admin: ApiClient, enforced: str) -> None:
    admin.patch(CLASSES, NAME, {"spec": {"unit": {"resources": {"nvidia.com/gpu": None, "cpu": "1"}}}})
    until(lambda: judge(admin, pod(tolerations=[WILDCARD])) == "ok", DEADLINE_S, "the class counts native resources")
    forged = pod(containers=[container(cpu="1")], tolerations=[toleration(NAME)])
    assert "without a claim" in judge(admin, forged)


@pytest.mark.parametrize("mode", ["Observe", "Warn"])
def test_only_enforced_classes_are_checked(admin: ApiClient, enforced: str, mode: str) -> None:
    admin.patch(CLASSES, NAME, {"spec": {"mode": mode}})
    until(lambda: not checked(admin, NAME), DEADLINE_S, f"class unchecked in mode {mode}")


def test_forgeries_are_refused_where_pods_may_run_without_a_reservation(admin: ApiClient, enforced: str) -> None:
    admin.patch(CLASSES, NAME, {"spec": {"withoutReservation": "Allow"}})
    assert checked(admin, NAME)


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", "kube-node-lease"])
def test_some_namespaces_are_left_alone(admin: ApiClient, enforced: str, namespace: str) -> None:
    until(lambda: admin.find("serviceaccounts", "default", namespace), DEADLINE_S, "default service account")
    assert judge(admin, pod(tolerations=[toleration(NAME)]), namespace) == "ok"


@pytest.mark.parametrize(
    "stuffing",
    [
        {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(1000)] + [toleration(NAME)]},
        {"initContainers": [container(f"i{n}") for n in range(101)], "tolerations": [toleration(NAME)]},
        {"containers": [container(f"c{n}", gpu="1") for n in range(501)], "tolerations": [toleration(NAME)]},
    ],
    ids=["tolerations", "init containers", "containers"],
)
def test_no_forgery_is_too_large_to_be_judged(admin: ApiClient, enforced: str, stuffing: JsonObject) -> None:
    assert "may have at most" in judge(admin, pod(labels=LABEL, **stuffing))


def test_the_largest_pod_that_is_judged_stays_within_the_budget(admin: ApiClient, enforced: str) -> None:
    resources = {f"vendor.example/{n}": "1" for n in range(7)}
    admin.patch(CLASSES, NAME, {"spec": {"unit": {"resources": resources}}})
    asks = {"name": "main", "image": "test.example/none", "resources": {"limits": {"vendor.example/6": "1"}}}
    forged = pod(containers=[asks], tolerations=[toleration(NAME)])
    until(lambda: judge(admin, forged) != "ok", DEADLINE_S, "the class counts eight resources")

    def largest(token: str) -> JsonObject:
        shape: JsonObject = {
            "containers": [container(f"c{n}", gpu="1") for n in range(500)],
            "initContainers": [container(f"i{n}", gpu="1") for n in range(100)],
        }
        others = [{"key": f"k{n}", "operator": "Exists"} for n in range(990)]
        found = let_in(token, **shape)
        found["spec"]["tolerations"] = [*others, *found["spec"]["tolerations"]]
        return found

    assert judge(admin, largest("1-500-a")) == "ok"
    assert "asks for 500 GPU" in judge(admin, largest("1-501-a"))


def test_updates_are_nobodys_business(admin: ApiClient, enforced: str, namespace: str) -> None:
    admin.create(pod("free"), namespace=namespace)
    late = {"spec": {"tolerations": [toleration(NAME)]}}
    updated = admin.patch("pods", "free", late, namespace, kind="merge").object
    assert toleration(NAME) in updated["spec"]["tolerations"]
