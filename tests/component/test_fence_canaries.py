"""What one tenant can read names nothing of another's: strings planted on one side are looked for on the other."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from common.domain import keys
from tests.component.builders import DEADLINE_S, container
from tests.component.fence_scene import Scene, scene_of
from tests.component.fence_table import ATTACKS
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.controlplane.product import Product
from tests.e2e import reading
from tests.e2e.stage import Tenant, refusal

pytestmark = pytest.mark.controlplane

CANARY = "canary"
GPUS = 4


class Heard:
    """All that the tenant was told: answers, warnings, refusals."""

    def __init__(self, tenant: Tenant) -> None:
        self.tenant = tenant
        self.texts: list[str] = []

    def create(self, manifest: JsonObject, *, dry_run: bool = False) -> str:
        try:
            reply = self.tenant.client.create(manifest, namespace=self.tenant.namespace, dry_run=dry_run)
        except ApiError as error:
            self.texts.append(json.dumps(error.reply.object))
            return error.message
        self.texts += [json.dumps(reply.object), *reply.warnings]
        return " ".join(reply.warnings)

    def tell(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture(scope="module")
def scene(control_plane: ControlPlane) -> Iterator[Scene]:
    with Product(control_plane, webhook_count=1) as product, scene_of(product) as opened:
        yield opened


@pytest.fixture(scope="module")
def victim(scene: Scene) -> Tenant:
    """Holds most of the class: in its name, notes, labels, pods, users and windows there is a canary."""
    tenant = Tenant(scene.stage, f"{CANARY}-user")
    scene.stage.tenants.append(tenant)
    now = scene.stage.now()
    tenant.hold_open(f"{CANARY}-open", units=GPUS, note=f"{CANARY} note", duration=timedelta(hours=6))
    tenant.book_ahead(f"{CANARY}-later", 6, now + timedelta(hours=7), note=f"{CANARY} note")
    for name in ("one", "two"):
        labels = {f"{CANARY}.example/label": f"{CANARY}-label"}
        tenant.create_pod(
            f"{CANARY}-{name}", labels=labels, annotations={f"{CANARY}.example/a": f"{CANARY}-annotation"}
        )
        tenant.runs(f"{CANARY}-{name}")
    tenant.create_pod(f"{CANARY}-waiting", gpus=GPUS)
    tenant.waits_for(f"{CANARY}-waiting", "ReservationFull")
    return tenant


@pytest.fixture(scope="module")
def heard(scene: Scene, victim: Tenant) -> Heard:
    """The other tenant comes up against everything that says no, or not yet."""
    bob = scene.mallory
    heard = Heard(bob)
    now = scene.stage.now()
    bob.book_ahead("later", 1, now + timedelta(hours=2))
    for name, reason, fields in (
        ("full", "ReservationFull", {"annotations": {keys.USE_RESERVATION: "sprint"}}),
        ("early", "WaitingForReservation", {"annotations": {keys.USE_RESERVATION: "later"}}),
        (
            "other",
            "ReservationNotFound",
            {"annotations": {keys.USE_RESERVATION: f"{CANARY}-open".replace(CANARY, "no")}},
        ),
        ("large", "ReservationTooSmall", {"gpus": 3}),
        ("gated", "OtherGate", {"spec": {"schedulingGates": [{"name": "team.example/wait"}]}}),
    ):
        told = heard.create(bob.manifest(name, **fields))
        assert reason in told or told.startswith("held: reservation"), told
    heard.create(bob.manifest("typo", gpu_class=f"{scene.gpu_class}0"))
    heard.create(bob.manifest("idle", spec={"containers": [container()]}))
    for dry_run in (True, False):
        assert "only" in heard.create(_wish(scene, "crowded", units=8), dry_run=dry_run)
    until(lambda: reading.phase(bob.reservation("crowded")) == "Denied", DEADLINE_S, "more than is free is denied")
    heard.create(_wish(scene, "long", duration="9000h"))
    heard.create(_wish(scene, "past", start="2020-01-01T00:00:00Z"))
    heard.create(_wish(scene, "unknown", gpuClass="nothing"))
    until(lambda: reading.phase(bob.reservation("unknown")) != "Confirming", DEADLINE_S, "the unknown class is judged")
    bob.client.patch("gpureservations.gpures.dev", "sprint", {"spec": {"units": 8}}, bob.namespace)
    until(
        lambda: reading.condition(bob.reservation("sprint"), "Applied").get("status") == "False", DEADLINE_S, "refused"
    )
    for attack in ATTACKS:
        heard.tell(attack.try_it(scene)[1])
    return heard


def _wish(scene: Scene, name: str, **spec: Any) -> JsonObject:
    given = {"gpuClass": scene.gpu_class, "units": 1, **({} if "end" in spec else {"duration": "4h"}), **spec}
    return {"apiVersion": "gpures.dev/v1alpha1", "kind": "GPUReservation", "metadata": {"name": name}, "spec": given}


def readable(client: ApiClient, namespace: str) -> Iterator[tuple[str, str]]:
    """Every list that the tenant is given, in the namespace and cluster-wide, by its path."""
    versions = ["/api/v1"]
    for group in client.request("GET", "/apis").object["groups"]:
        versions += [f"/apis/{version['groupVersion']}" for version in group["versions"]]
    for version in versions:
        for entry in client.request("GET", version).object["resources"]:
            if "/" in entry["name"] or "list" not in entry["verbs"]:
                continue
            within = f"/namespaces/{namespace}" if entry["namespaced"] else ""
            for path in {f"{version}{within}/{entry['name']}", f"{version}/{entry['name']}"}:
                try:
                    yield path, json.dumps(client.request("GET", path).object)
                except ApiError as error:
                    yield path, error.message


def _told(scene: Scene, name: str) -> str:
    return str(reading.condition(scene.mallory.pod(name)).get("message", ""))


def _with_canary(texts: Sequence[str]) -> list[str]:
    return [text[max(0, text.index(CANARY) - 200) : text.index(CANARY) + 50] for text in texts if CANARY in text]


def test_no_answer_names_anything_of_another_tenant(heard: Heard) -> None:
    assert _with_canary(heard.texts) == []
    assert len(heard.texts) > len(ATTACKS)


def test_nothing_that_a_tenant_reads_names_anything_of_another(scene: Scene, heard: Heard) -> None:
    found = dict(readable(scene.tenant, scene.namespace))
    assert {path for path, text in found.items() if CANARY in text} == set(), _with_canary(list(found.values()))
    # It was looked at: the tenant's own things, the classes, the Events.
    kinds = ("pods", "events", "gpureservations", "gpuclasses")
    assert all(any(path.endswith(f"/{kind}") and '"items"' in text for path, text in found.items()) for kind in kinds)


def test_the_reasons_that_tenants_read_later_name_nothing_either(scene: Scene, heard: Heard) -> None:
    for name in ("full", "early", "other", "large"):
        told = until(partial(_told, scene, name), DEADLINE_S, f"{name} told")
        assert CANARY not in told
    events = scene.tenant.items("events", scene.namespace)
    assert {event["reportingComponent"] for event in events} >= {"gpures.dev/reconciler"}
    assert _with_canary([json.dumps(event) for event in events]) == []


def test_a_tenant_is_refused_the_other_namespace(scene: Scene, victim: Tenant) -> None:
    error = refusal(lambda: scene.tenant.items("gpureservations.gpures.dev", victim.namespace))
    assert error.code == 403
