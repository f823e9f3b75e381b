"""Attacks on bindings, on our own objects and registrations, and with a stolen token of ours."""

from __future__ import annotations

from typing import Any

from common.domain import keys
from tests.component.builders import CLASSES, RESERVATIONS, reservation, toleration
from tests.component.fence_scene import Attack, Scene, Verdict
from tests.controlplane.discovery import JsonObject

BINDER = "may not bind pods to nodes: that would go round reservations"
STATUS = "the status is written by the reservation system only"
WEBHOOKS = "may not change the webhooks of the GPU reservations"
CLAIMED = {keys.CLAIM: "1764582000-1-alice"}
OURS = "zz-gpures"
MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"


def _status(scene: Scene, who: str, status: JsonObject, namespace: str = "", name: str = "sprint") -> Any:
    return scene.by(who).patch(
        RESERVATIONS, name, {"status": status}, namespace or scene.namespace, subresource="status"
    )


def _opened(scene: Scene) -> Any:
    """The guard off: its entry fails open."""
    found = scene.admin.get(MUTATING, OURS)
    found["webhooks"][0]["failurePolicy"] = "Ignore"
    api = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
    return scene.wide.replace({**api, **found})


def _booked(scene: Scene, who: str = "tenant", namespace: str = "", spec: JsonObject | None = None, **meta: Any) -> Any:
    row = reservation("forged", {"gpuClass": scene.gpu_class, **(spec or {})}, **meta)
    return scene.by(who).create(row, namespace=namespace or scene.namespace, dry_run=True)


BOUND = [
    Attack(
        "T8",
        "binds a pod",
        "create pods/binding",
        lambda s: s.bind("bare", "tenant"),
        'cannot create resource "pods/binding"',
    ),
    Attack("T8", "binds a pod, with the right to", "create pods/binding", lambda s: s.bind("bare"), BINDER, wide=True),
    Attack(
        "T8", "binds a pod in the old way", "create bindings", lambda s: s.bind("bare", legacy=True), BINDER, wide=True
    ),
    Attack(
        "T9",
        "binds a held pod with a scheduler of their own",
        "create pods/binding",
        lambda s: s.bind("waiting"),
        BINDER,
        wide=True,
    ),
    Attack(
        "T3",
        "writes a claim by a binding",
        "create pods/binding",
        lambda s: s.bind("bare", annotations=CLAIMED),
        BINDER,
        wide=True,
    ),
    Attack(
        "T14",
        "labels the own namespace",
        "patch namespaces",
        lambda s: s.tenant.patch("namespaces", s.namespace, {"metadata": {"labels": {"gpures.dev/ignore": "true"}}}),
        'cannot patch resource "namespaces"',
    ),
    Attack(
        "T14",
        "creates an infrastructure namespace",
        "create namespaces",
        lambda s: s.tenant.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu-operator"}}),
        'cannot create resource "namespaces"',
    ),
]
OBJECTS = [
    Attack(
        "T29",
        "promises itself more",
        "patch gpureservations/status",
        lambda s: _status(s, "tenant", {"granted": {"units": 8}}),
        'cannot patch resource "gpureservations/status"',
    ),
    Attack(
        "T29",
        "promises itself more, with the right to",
        "patch gpureservations/status",
        lambda s: _status(s, "wide", {"granted": {"units": 8}}),
        STATUS,
        wide=True,
    ),
    Attack(
        "T29",
        "ends a rival's reservation, with the right to",
        "patch gpureservations/status",
        lambda s: _status(s, "wide", {"phase": "Ended", "granted": None}, s.alice.namespace, "alices"),
        STATUS,
        wide=True,
    ),
    Attack(
        "T29",
        "makes a class larger, with the right to",
        "patch gpuclasses/status",
        lambda s: s.wide.patch(CLASSES, s.gpu_class, {"status": {"units": {"bookable": 99}}}, subresource="status"),
        STATUS,
        wide=True,
    ),
    Attack(
        "T29",
        "shortens a rival's window",
        "patch gpureservations",
        lambda s: s.tenant.patch(RESERVATIONS, "alices", {"spec": {"duration": "1m"}}, s.alice.namespace),
        'cannot patch resource "gpureservations"',
    ),
    Attack(
        "T29",
        "books for a rival",
        "create gpureservations",
        lambda s: _booked(s, namespace=s.alice.namespace),
        'cannot create resource "gpureservations"',
    ),
    Attack(
        "T3",
        "books in somebody's name",
        "create gpureservations",
        lambda s: _booked(s, annotations={keys.CREATED_BY: "alice@example.com"}),
        "",
        Verdict.HARMLESS,
        reads_down="the annotation gpures.dev/created-by says who created the reservation",
    ),
    Attack(
        "T3",
        "books as the reservation service does",
        "create gpureservations",
        lambda s: _booked(s, spec={"type": "OnDemand"}),
        "are written by the reservation service only",
    ),
    Attack(
        "T27",
        "promises more with the webhook's token",
        "patch gpureservations/status",
        lambda s: _status(s, "webhook", {"granted": {"units": 8}}),
        "of the status, the webhook writes the claims only",
    ),
    Attack(
        "T27",
        "ends a reservation with the webhook's token",
        "patch gpureservations/status",
        lambda s: _status(s, "webhook", {"phase": "Ended", "granted": None}, s.alice.namespace, "alices"),
        "of the status, the webhook writes the claims only",
    ),
    Attack(
        "T27",
        "deletes a running pod with the reconciler's token",
        "delete pods",
        lambda s: s.by("reconciler").delete("pods", "running", s.namespace),
        "deletes only pods that it let in and that no node took",
    ),
    Attack(
        "T27",
        "deletes a held pod with the reconciler's token",
        "delete pods",
        lambda s: s.by("reconciler").delete("pods", "waiting", s.namespace),
        "deletes only pods that it let in and that no node took",
    ),
    Attack(
        "T15",
        "deletes the webhooks",
        "delete mutatingwebhookconfigurations",
        lambda s: s.tenant.delete(MUTATING, OURS),
        'cannot delete resource "mutatingwebhookconfigurations"',
    ),
    Attack(
        "T15",
        "deletes the webhooks, with the right to",
        "delete mutatingwebhookconfigurations",
        lambda s: s.wide.delete(MUTATING, OURS),
        WEBHOOKS,
        wide=True,
    ),
    Attack(
        "T15",
        "deletes every validating webhook, with the right to",
        "deletecollection validatingwebhookconfigurations",
        lambda s: s.wide.request("DELETE", s.wide.path(VALIDATING)),
        WEBHOOKS,
        wide=True,
    ),
    Attack(
        "T15",
        "opens the guard, with the right to",
        "update mutatingwebhookconfigurations",
        _opened,
        WEBHOOKS,
        wide=True,
    ),
    Attack(
        "T15",
        "deletes the fence",
        "delete validatingadmissionpolicies",
        lambda s: s.wide.delete("validatingadmissionpolicies.admissionregistration.k8s.io", "gpures-fence"),
        'cannot delete resource "validatingadmissionpolicies"',
        wide=True,
    ),
    Attack(
        "T15",
        "lists itself",
        "patch validatingadmissionpolicybindings",
        lambda s: s.wide.patch(
            "validatingadmissionpolicybindings.admissionregistration.k8s.io",
            "gpures-fence",
            {"metadata": {"annotations": {"gpures.dev/fence-allowed-binders": "wide@example.com"}}},
        ),
        'cannot patch resource "validatingadmissionpolicybindings"',
        wide=True,
    ),
]
STOLEN = [
    # T27: a stolen token of ours
    Attack(
        "T27",
        "runs another image with the reconciler's token",
        "patch pods",
        lambda s: s.patch(
            "running",
            [{"op": "replace", "path": "/spec/containers/0/image", "value": "evil"}],
            "reconciler",
            kind="json",
        ),
        "the reservation system does not change what a pod runs",
    ),
    Attack(
        "T27",
        "adds a toleration of every taint with the reconciler's token",
        "patch pods",
        lambda s: s.tolerate("bare", {"operator": "Exists"}, "reconciler"),
        "the toleration of the pod's own class only",
    ),
    Attack(
        "T27",
        "adds the reserved toleration without a claim with the reconciler's token",
        "patch pods",
        lambda s: s.tolerate("waiting", toleration(s.gpu_class), "reconciler"),
        "the toleration of the pod's own class only",
    ),
    Attack(
        "T27",
        "writes others' annotations with the reconciler's token",
        "patch pods",
        lambda s: s.annotate("running", {"prometheus.io/scrape": "false"}, "reconciler"),
        "its own labels and annotations",
    ),
    Attack(
        "T27",
        "says that a pod has failed with the reconciler's token",
        "patch pods/status",
        lambda s: s.patch("running", {"status": {"phase": "Failed"}}, "reconciler", "status", "strategic"),
        "no other part of its status",
    ),
    Attack(
        "T27",
        "takes a pod's finalizers with the reconciler's token",
        "patch pods",
        lambda s: s.patch("running", {"metadata": {"finalizers": ["x.example/y"]}}, "reconciler"),
        "its own labels and annotations",
    ),
]
