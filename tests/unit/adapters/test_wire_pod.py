"""Pods and nodes from the API server's JSON."""

import dataclasses
import json
from decimal import Decimal
from typing import Any

import pytest

from common.adapters.wire import PodWire, decode_identity, decode_node, decode_pod, pod_view
from common.adapters.wire.metadata import UNSTAMPED
from common.domain import keys
from common.domain.errors import MalformedObject
from common.domain.pod import Expression, NodeTerm, PodPhase, Toleration
from common.domain.reservation import ObjectKey
from tests.support import manifests
from tests.support.builders import GPU, NINE
from tests.support.manifests import container, raw


def pod(**given: Any) -> Any:
    return decode_pod(raw(manifests.a_pod(**given)))


def test_the_fields_that_decisions_read() -> None:
    view = pod(
        version="41",
        gates=(keys.GATE, "other/gate"),
        labels={"app": "trainer"},
        annotations={keys.CLAIM: "1764579600-1-9f3c", "kubectl.kubernetes.io/last-applied": "{}", "galends/x": "y"},
        spec={
            "nodeName": "node-7",
            "tolerations": [{"key": keys.TAINT, "operator": "Equal", "value": "h100", "effect": "NoSchedule"}],
        },
        status={"phase": "Running"},
    )
    assert view.key == ObjectKey("alice", "trainer-0")
    assert (view.uid, view.version, view.created) == ("uid-alice-trainer-0", "41", NINE)
    assert view.class_label == "h100"
    assert view.labels == {keys.CLASS_LABEL: "h100", "app": "trainer"}
    assert view.phase is PodPhase.RUNNING
    assert view.node == "node-7"
    assert view.gated
    assert view.foreign_gates == ("other/gate",)
    assert view.tolerations == (Toleration(keys.TAINT, "Equal", "h100", "NoSchedule"),)
    assert view.requests == {GPU: Decimal(1)}
    assert view.annotations == {keys.CLAIM: "1764579600-1-9f3c", "galends/x": "y"}
    assert view.token == "1764579600-1-9f3c"
    assert view.annotated
    assert not view.deleting
    assert not view.mirror


@pytest.mark.parametrize(
    ("phase", "expected"),
    [("Succeeded", PodPhase.SUCCEEDED), ("", PodPhase.PENDING), ("Paused", PodPhase.UNKNOWN)],
)
def test_phase(phase: str, expected: PodPhase) -> None:
    assert pod(status={"phase": phase}).phase is expected


def test_what_is_absent_or_null_in_a_review_reads_as_nothing() -> None:
    bare = {
        "metadata": {"generateName": "trainer-", "creationTimestamp": None, "labels": None, "ownerReferences": None},
        "spec": {"containers": None, "tolerations": None, "schedulingGates": None, "affinity": None, "overhead": None},
        "status": {},
    }
    view = decode_pod(raw(bare))
    assert view.created == UNSTAMPED
    assert (view.key, view.class_label, view.requests, view.owner) == (ObjectKey("", ""), "", {}, "")
    assert view.phase is PodPhase.PENDING
    assert decode_pod(b"{}").tolerations == ()
    assert not view.annotated


def test_the_struct_stands_inside_others_and_keeps_what_the_webhook_asks() -> None:
    wire = PodWire()
    assert pod_view(wire, namespace="alice").key == ObjectKey("alice", "")
    assert wire.metadata.generate_name == ""


@pytest.mark.parametrize(
    ("owner", "labels", "expected"),
    [
        ({"kind": "ReplicaSet", "name": "web-5d9f"}, {"pod-template-hash": "5d9f"}, "Deployment/web"),
        ({"kind": "ReplicaSet", "name": "web-5d9f"}, {}, "ReplicaSet/web-5d9f"),
        ({"kind": "ReplicaSet", "name": "5d9f"}, {"pod-template-hash": "5d9f"}, "ReplicaSet/5d9f"),
        ({"kind": "Job", "name": "train"}, {}, "Job/train"),
        ({"kind": "StatefulSet", "name": "db"}, {"pod-template-hash": "db"}, "StatefulSet/db"),
    ],
)
def test_owner(owner: dict[str, str], labels: dict[str, str], expected: str) -> None:
    bystander = {"kind": "Queue", "name": "q"}
    assert pod(labels=labels, ownerReferences=[bystander, {**owner, "controller": True}]).owner == expected
    assert pod(labels=labels, ownerReferences=[bystander, owner]).owner == ""


@pytest.mark.parametrize(("kind", "uid"), [("Job", "uid-1"), ("ReplicaSet", "")])
def test_an_owner_is_known_well_enough_for_an_event(kind: str, uid: str) -> None:
    """A pod tells nothing of its Deployment but the name."""
    owner = {"apiVersion": "example.com/v1", "kind": kind, "name": "web-5d9f", "uid": "uid-1", "controller": True}
    view = pod(labels={"pod-template-hash": "5d9f"}, ownerReferences=[owner])
    assert (view.owner_api, view.owner_uid) == ("example.com/v1", uid)
    assert (pod().owner_api, pod().owner_uid) == ("", "")


def test_requests_are_those_that_the_scheduler_counts() -> None:
    spec = {
        "containers": [container(2), {"name": "b", "resources": {"requests": {GPU: "1", "cpu": "500m"}}}],
        "initContainers": [
            container(1, "sidecar", restartPolicy="Always"),
            container(5, "setup"),
        ],
        "overhead": {"cpu": "250m"},
    }
    assert pod(spec=spec).requests == {GPU: Decimal(6), "cpu": Decimal("0.75")}


def test_a_request_beats_its_limit_and_a_limit_stands_in_for_it() -> None:
    both = {"requests": {"cpu": "1"}, "limits": {"cpu": "4", "memory": "1Gi"}}
    assert pod(spec={"containers": [{"name": "a", "resources": both}]}).requests == {
        "cpu": Decimal(1),
        "memory": Decimal(2**30),
    }


def test_resources_of_the_pod_as_a_whole_replace_the_sum() -> None:
    spec = {
        "resources": {"requests": {"cpu": "8"}},
        "containers": [{"name": "a", "resources": {"requests": {"cpu": "1"}}}],
    }
    assert pod(spec=spec).requests == {"cpu": Decimal(8)}


def test_placement() -> None:
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]},
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]},
                ]
            }
        }
    }
    placement = pod(spec={"nodeSelector": {"disk": "ssd"}, "affinity": affinity}).placement
    assert placement.selector == {"disk": "ssd"}
    assert placement.terms == (
        NodeTerm(labels=(Expression("zone", "In", ("a", "b")),)),
        NodeTerm(fields=(Expression("metadata.name", "In", ("n",)),)),
    )
    assert pod().placement.terms is None
    assert pod(spec={"nodeSelector": {"disk": "ssd"}}).placement.terms is None


def test_the_held_condition_counts_while_it_is_true() -> None:
    condition = {"type": keys.HELD_CONDITION, "status": "True", "reason": "NoReservation"}
    assert pod(status={"conditions": [condition]}).held_reason == "NoReservation"
    assert pod(status={"conditions": [{**condition, "status": "False"}]}).held_reason == ""


def test_mirror_pods_and_pods_that_are_going() -> None:
    assert pod(annotations={"kubernetes.io/config.mirror": "x"}).mirror
    assert pod(deletionTimestamp="2026-12-01T10:00:00Z").deleting


def test_pods_with_the_same_content_share_it() -> None:
    one, other = pod(name="a"), pod(name="b")
    assert one.labels is other.labels
    assert one.requests is other.requests
    assert one.placement is other.placement
    assert one.namespace is other.namespace


def test_nothing_huge_is_remembered() -> None:
    huge = "x" * 5000
    given: dict[str, Any] = {
        "labels": {huge: "a"},
        "spec": {
            "overhead": {huge: "1"},
            "tolerations": [{"key": huge}],
            "nodeSelector": {"a": huge},
            "containers": [container()] * 100,
        },
    }
    one, other = pod(**given), pod(**given)
    assert one.requests == {huge: Decimal(1), GPU: Decimal(100)}
    assert one == dataclasses.replace(other)
    assert one.labels is not other.labels
    assert one.requests is not other.requests
    assert one.tolerations is not other.tolerations
    assert one.placement is not other.placement


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ({"containers": [container("-1")]}, "'-1' is not a quantity"),
        ({"containers": [container("one")]}, "'one' is not a quantity"),
        ({"overhead": {"cpu": "x"}}, "'x' is not a quantity"),
        ({"containers": 3}, "containers"),
        ({"tolerations": [{"key": 1}]}, "tolerations"),
    ],
)
def test_malformed_pods_say_which_and_why(spec: dict[str, Any], hint: str) -> None:
    with pytest.raises(MalformedObject, match=f"^pod alice/trainer-0: .*{hint}"):
        pod(spec=spec)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"metadata": 3}', b'\xff{"a": 1}', b"[" * 100_000])
def test_what_is_no_pod_at_all(body: bytes) -> None:
    with pytest.raises(MalformedObject, match="pod"):
        decode_pod(body)


def test_node() -> None:
    node = decode_node(raw(manifests.a_node(gpus=8, cordoned=True, version="7")))
    assert (node.name, node.version, node.class_label) == ("node-1", "7", "h100")
    assert node.capacity[GPU] == Decimal(8)
    assert node.ready
    assert node.cordoned
    assert not decode_node(raw(manifests.a_node(ready=False))).ready
    assert decode_node(raw(manifests.a_node(gpu_class=""))).class_label == ""
    assert not decode_node(b'{"metadata": {"name": "new"}}').ready


def test_a_node_whose_quantities_cannot_be_read() -> None:
    with pytest.raises(MalformedObject, match=r"^node node-1: 'many' is not a quantity"):
        decode_node(raw(manifests.a_node(gpus="many")))


def test_identity() -> None:
    body = json.dumps({"metadata": {"name": "a", "namespace": "b", "resourceVersion": "3"}, "spec": 1}).encode()
    assert decode_identity(body) == (ObjectKey("b", "a"), "3")
