"""Installs what `deploy/` ships into a cluster, as an administrator would, and waits until it is in force."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import yaml

from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
KINDS = ("gpuclasses", "gpureservations")
WEBHOOKS = "webhooks.yaml"
HOLD = "hold.yaml"
# An API server that has looked for our kinds before they were there looks again after 30 s.
DEADLINE_S = 60.0
PROBE = "gpures-install-probe"
PROBE_RESOURCE = "probe.gpures.dev/unit"
REGISTRATION = "admissionregistration.k8s.io"
EXISTS = 409
DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True)
class WebhookEndpoint:
    """Where the API server finds our webhook: at an address, or without one behind the Service named in the file."""

    ca_pem: bytes
    url: str | None = None


def documents(folder: str, name: str | None = None) -> Sequence[JsonObject]:
    """Read the objects of one file of `deploy/<folder>`, or of all of its files."""
    paths = sorted((DEPLOY / folder).glob(name or "*.yaml"))
    return [document for path in paths for document in yaml.safe_load_all(path.read_text()) if document]


def webhook_configurations(endpoint: WebhookEndpoint) -> Sequence[JsonObject]:
    """Return the webhook configurations of `deploy/base/webhooks.yaml`, pointed at the endpoint."""
    configurations = copy.deepcopy(documents("base", WEBHOOKS))
    for configuration in configurations:
        for entry in configuration["webhooks"]:
            client_config = entry["clientConfig"]
            if endpoint.url is not None:
                path = client_config.pop("service")["path"]
                client_config["url"] = f"{endpoint.url.rstrip('/')}{path}"
            client_config["caBundle"] = base64.b64encode(endpoint.ca_pem).decode()
    return configurations


def install(admin: ApiClient, *, webhook: WebhookEndpoint | None = None, hold: bool = True) -> None:
    """Install everything, or bring it up to date; without an endpoint no webhook is registered afterwards.

    hold=False leaves the hold policy out, as on clusters before Kubernetes 1.36.
    """
    unregister_webhooks(admin)
    install_base(admin)
    install_crds(admin)
    install_policies(admin, hold=hold)
    if webhook is not None:
        _apply(admin, webhook_configurations(webhook))


def unregister_webhooks(admin: ApiClient) -> None:
    """Take the webhook configurations away, and wait until nothing is sent there."""
    found = [
        admin.path(f"{_plural(configuration)}.{REGISTRATION}", name=configuration["metadata"]["name"])
        for configuration in documents("base", WEBHOOKS)
    ]
    for path in found:
        with suppress(ApiError):
            admin.request("DELETE", path)
    stray = _probe("Pod", {"containers": [_container()]}, annotations={"gpures.dev/claim": "1-1-a"})
    until(lambda: not _refused(admin, stray, by="guard.gpures.dev"), DEADLINE_S, "no webhook of ours")


def install_base(admin: ApiClient) -> None:
    """Install namespace, service accounts, RBAC and flow control."""
    base = [path.name for path in sorted((DEPLOY / "base").glob("*.yaml")) if path.name != WEBHOOKS]
    # The namespace first, for some of the others live in it.
    for name in sorted(base, key=lambda name: name != "namespace.yaml"):
        _apply(admin, documents("base", name))


def install_crds(admin: ApiClient) -> None:
    """Install our kinds and wait until they are served and can be discovered."""
    _apply(admin, documents("crds"))
    for kind in KINDS:
        until(partial(_established, admin, f"{kind}.gpures.dev"), DEADLINE_S, f"{kind} established")
        until(partial(_served, admin, f"/apis/gpures.dev/v1alpha1/{kind}"), DEADLINE_S, f"{kind} served")
    # A policy whose parameters' kind is not in discovery yet is out of force for up to 30 s.
    with ApiClient(admin.connection, headers=[("Accept", DISCOVERY)]) as discovering:
        until(lambda: _discovered(discovering), DEADLINE_S, "our kinds in discovery")


def install_policies(admin: ApiClient, *, hold: bool = True) -> None:
    """Install the policies and wait until each refuses, or holds, what it should."""
    if not hold:
        _remove_hold(admin)
    for path in sorted((DEPLOY / "policies").glob("*.yaml")):
        if hold or path.name != HOLD:
            _apply(admin, documents("policies", path.name))
    until(
        lambda: _refused(admin, _forged_reservation(), by="gpures-reservations"),
        DEADLINE_S,
        "policy gpures-reservations in force",
    )
    with _probe_class(admin):
        until(lambda: _refused(admin, _forged_pod(), by="gpures-check"), DEADLINE_S, "policy gpures-check in force")
        if hold:
            until(lambda: _held(admin), DEADLINE_S, "policy gpures-hold in force")
    # The policies learn by watching: nothing of the probe may be left when the caller looks.
    until(
        lambda: not _refused(admin, _forged_pod(), by="gpures-check"),
        DEADLINE_S,
        "policies without the class of the probe",
    )
    until(lambda: not _held(admin), DEADLINE_S, "hold policy without the class of the probe")


def _remove_hold(admin: ApiClient) -> None:
    for document in documents("policies", HOLD):
        # Where there is no such kind there is no such policy.
        with suppress(ApiError, LookupError):
            admin.delete(f"{_plural(document)}.{REGISTRATION}", document["metadata"]["name"])


def _plural(document: JsonObject) -> str:
    kind = str(document["kind"]).lower()
    return f"{kind[:-1]}ies" if kind.endswith("policy") else f"{kind}s"


@contextmanager
def _probe_class(admin: ApiClient) -> Iterator[None]:
    unit = {"name": "probe", "resources": {PROBE_RESOURCE: "1"}}
    try:
        admin.create(_probe("GPUClass", {"unit": unit}))
    except ApiError as error:
        if error.code != EXISTS:
            raise
    try:
        yield
    finally:
        admin.delete("gpuclasses.gpures.dev", PROBE)


def _forged_reservation() -> JsonObject:
    somebody_else = {"gpures.dev/created-by": "somebody-else"}
    return _probe("GPUReservation", {"gpuClass": PROBE, "duration": "1h"}, annotations=somebody_else)


def _forged_pod() -> JsonObject:
    toleration = {"key": "gpu-class-reservation", "operator": "Exists"}
    return _probe("Pod", {"containers": [_container()], "tolerations": [toleration]})


def _ordinary_pod() -> JsonObject:
    return _probe("Pod", {"containers": [_container()]}, labels={"gpu-class": PROBE})


def _container() -> JsonObject:
    return {"name": "probe", "image": "probe", "resources": {"limits": {PROBE_RESOURCE: "1"}}}


def _probe(kind: str, spec: JsonObject, **meta: dict[str, str]) -> JsonObject:
    api_version = "v1" if kind == "Pod" else "gpures.dev/v1alpha1"
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": PROBE, **meta}, "spec": spec}


def _apply(admin: ApiClient, objects: Iterable[JsonObject]) -> None:
    for document in objects:
        admin.apply(document, field_manager="gpures-install", namespace="gpures-system")


def _established(admin: ApiClient, name: str) -> bool:
    crd = admin.get("customresourcedefinitions.apiextensions.k8s.io", name)
    conditions = {entry["type"]: entry["status"] for entry in (crd.get("status", {}).get("conditions") or [])}
    return conditions.get("Established") == "True"


def _served(admin: ApiClient, path: str) -> bool:
    try:
        admin.request("GET", path, params={"limit": "1"})
    except ApiError:
        return False
    return True


def _discovered(discovering: ApiClient) -> bool:
    groups = discovering.request("GET", "/apis").object["items"]
    ours = [version for group in groups if group["metadata"]["name"] == "gpures.dev" for version in group["versions"]]
    return {entry["resource"] for version in ours for entry in version.get("resources", [])} >= set(KINDS)


def _refused(admin: ApiClient, document: JsonObject, *, by: str) -> bool:
    try:
        admin.create(document, dry_run=True)
    except ApiError as error:
        if by in error.message:
            return True
        raise
    return False


def _held(admin: ApiClient) -> bool:
    stored = admin.create(_ordinary_pod(), dry_run=True).object
    return "schedulingGates" in stored["spec"]
