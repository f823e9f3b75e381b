"""Leaving a cluster: the order, the end of the sweep, the patches, and what becomes of faults."""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from common.adapters.answers import Answer
from common.adapters.kube import JSON
from common.domain import keys
from common.domain.errors import ApiError, Conflict, NotFound, OutcomeUnknown, Refused
from reconciler.uninstall import Uninstaller
from reconciler.uninstall_plan import (
    CannotUninstall,
    Delete,
    OpenGates,
    Pod,
    Quiet,
    Stop,
    Target,
    opening,
    parse,
    plan,
    untold,
)
from tests.support.manifests import Manifest, a_pod, raw

TARGETS = [
    "validatingadmissionpolicies/gpures-fence",
    "validatingadmissionpolicybindings/gpures-fence",
    "deployments/gpures-reconciler",
    "mutatingwebhookconfigurations/zz-gpures",
    "validatingwebhookconfigurations/zz-gpures",
    "mutatingadmissionpolicies/gpures-hold",
    "mutatingadmissionpolicybindings/gpures-hold",
]


def held(name: str = "trainer-0", **fields: Any) -> Manifest:
    annotations = {keys.HELD: "NoReservation: none", keys.CLAIM: "1-1-a", "mine": "stays"}
    conditions = [{"type": keys.HELD_CONDITION, "status": "True"}, {"type": "PodScheduled", "status": "False"}]
    return a_pod(name, gates=("other", keys.GATE), annotations=annotations, status={"conditions": conditions}, **fields)


def decoded(manifest: Manifest) -> Pod:
    return msgspec.json.decode(raw(manifest), type=Pod)


def test_the_order_is_hold_webhooks_reconciler_gates_fence_and_bindings_go_before_policies() -> None:
    assert plan(parse(TARGETS)) == [
        Delete(
            (
                Target("mutatingadmissionpolicybindings", "gpures-hold"),
                Target("mutatingadmissionpolicies", "gpures-hold"),
            )
        ),
        Delete(
            (
                Target("mutatingwebhookconfigurations", "zz-gpures"),
                Target("validatingwebhookconfigurations", "zz-gpures"),
            )
        ),
        Stop((Target("deployments", "gpures-reconciler"),)),
        OpenGates(),
        Delete(
            (
                Target("validatingadmissionpolicybindings", "gpures-fence"),
                Target("validatingadmissionpolicies", "gpures-fence"),
            )
        ),
    ]


@pytest.mark.parametrize("text", ["namespaces/default", "deployments", "deployments/", "/x", ""])
def test_what_has_no_place_in_the_order_is_refused(text: str) -> None:
    with pytest.raises(CannotUninstall, match="is not resource/name"):
        parse([text])


def test_two_empty_lists_some_seconds_apart_are_the_end() -> None:
    quiet = Quiet(5)
    assert [quiet.after(left, at) for left, at in [(3, 0), (0, 1), (0, 5), (1, 6), (0, 7), (0, 11), (0, 12)]] == [
        False,
        False,
        False,
        False,
        False,
        False,
        True,
    ]


def test_a_pod_is_opened_without_a_trace_of_ours_and_keeps_what_is_anothers() -> None:
    assert opening(decoded(held(version="7"))) == [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "remove", "path": "/metadata/annotations/gpures.dev~1held"},
        {"op": "remove", "path": "/spec/schedulingGates/1"},
        {"op": "remove", "path": "/metadata/annotations/gpures.dev~1claim"},
    ]


def test_only_our_condition_is_taken_off() -> None:
    pod = decoded(held())
    assert pod.told
    assert untold(pod)["status"] == {"conditions": [{"type": keys.HELD_CONDITION, "$patch": "delete"}]}


@pytest.mark.parametrize(
    ("manifest", "stranded"),
    [
        (a_pod(), False),
        (a_pod(gates=("other",)), False),
        (a_pod(gates=(keys.GATE,)), True),
        (a_pod(annotations={keys.HELD: "Undecided: held"}), True),
        (a_pod(status={"conditions": [{"type": keys.HELD_CONDITION}]}), True),
    ],
)
def test_a_pod_that_waits_for_us_or_says_so_is_stranded(manifest: Manifest, stranded: bool) -> None:
    assert decoded(manifest).stranded is stranded


@dataclass
class Cluster:
    """Stands for `Kube`: pods by name, faults by request, a clock that goes on when somebody sleeps."""

    pods: dict[str, Manifest] = field(default_factory=dict)
    late: deque[Manifest] = field(default_factory=deque)
    faults: deque[ApiError] = field(default_factory=deque)
    refuses: bool = False
    done: list[str] = field(default_factory=list)
    now: float = 0.0

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout_s: float,
    ) -> Answer:
        if self.faults and method == "DELETE":
            raise self.faults.popleft()
        name = path.removesuffix("/status").rpartition("/")[2]
        if method == "GET" and "deployments" in path:
            raise NotFound(404, "gone")
        if method == "GET":
            if self.late:
                late = self.late.popleft()
                self.pods[late["metadata"]["name"]] = late
            items = [{**pod} for pod in self.pods.values()]
            return Answer(200, msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": items}))
        if method == "PATCH" and self.refuses:
            raise Refused(403, "denied")
        if method == "PATCH" and not path.endswith("/status"):
            self.pods.pop(name, None)
        self.done.append(f"{method} {path.split('/')[-2]}/{name}" if method == "DELETE" else f"{method} {name}")
        return Answer(200, b"{}")

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.sleep(0)

    def uninstaller(self) -> Uninstaller:
        kube: Any = self
        return Uninstaller(kube, "gpures-system", 5, 60, lambda: self.now, self.sleep)


async def test_gates_are_opened_between_the_webhooks_and_the_fence() -> None:
    cluster = Cluster(pods={"trainer-0": held()})
    await cluster.uninstaller().run(plan(parse(TARGETS)))
    assert cluster.done == [
        "DELETE mutatingadmissionpolicybindings/gpures-hold",
        "DELETE mutatingadmissionpolicies/gpures-hold",
        "DELETE mutatingwebhookconfigurations/zz-gpures",
        "DELETE validatingwebhookconfigurations/zz-gpures",
        "DELETE deployments/gpures-reconciler",
        "PATCH trainer-0",
        "PATCH trainer-0",
        "DELETE validatingadmissionpolicybindings/gpures-fence",
        "DELETE validatingadmissionpolicies/gpures-fence",
    ]


async def test_a_pod_that_was_on_its_way_in_is_opened_too() -> None:
    cluster = Cluster(late=deque([held("first"), held("second")]))
    await cluster.uninstaller().run([OpenGates()])
    assert cluster.pods == {}
    assert cluster.now >= 5


async def test_what_is_not_there_and_what_has_no_answer_stops_nothing() -> None:
    cluster = Cluster(faults=deque([NotFound(404, "no such kind"), OutcomeUnknown(0, "cut"), OutcomeUnknown(504, "")]))
    await cluster.uninstaller().run(plan(parse(TARGETS[-2:])))
    assert cluster.done == ["DELETE mutatingadmissionpolicies/gpures-hold"]


async def test_a_refused_delete_ends_it_with_a_sentence() -> None:
    cluster = Cluster(faults=deque([Refused(403, "not for you")]))
    with pytest.raises(CannotUninstall, match="not for you"):
        await cluster.uninstaller().run(plan(parse(TARGETS)))
    assert cluster.done == []


async def test_pods_that_cannot_be_opened_keep_the_fence_up() -> None:
    cluster = Cluster(pods={"trainer-0": held()}, refuses=True)
    with pytest.raises(CannotUninstall, match=r"1 pods are behind our gate; alice/trainer-0: 403: denied"):
        await cluster.uninstaller().run(plan(parse([TARGETS[0]])))
    assert cluster.done == []


async def test_a_pod_that_changes_meanwhile_is_met_again() -> None:
    cluster = Cluster(pods={"trainer-0": held()})
    answers: deque[ApiError | None] = deque([Conflict(409, "changed"), None, None])
    request = cluster.request

    async def once_in_conflict(method: str, path: str, **how: Any) -> Answer:
        fault = answers.popleft() if method == "PATCH" else None
        if fault is not None:
            raise fault
        return await request(method, path, **how)

    uninstaller = cluster.uninstaller()
    uninstaller.kube.request = once_in_conflict  # type: ignore[method-assign]
    await uninstaller.run([OpenGates()])
    assert cluster.pods == {}
