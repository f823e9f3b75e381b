"""Pods, replicas, network and certificates as helm renders them. Needs helm, and no cluster."""

from __future__ import annotations

import pytest

from tests.chart.helm import one, pod_specs, render
from tests.chart.sets import SETS
from tests.controlplane.discovery import JsonObject
from webhook.server import STOP_WITHIN_S


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_every_pod_fits_the_restricted_standard(values: JsonObject) -> None:
    for spec in pod_specs(render(values)).values():
        security = spec["securityContext"]
        assert security["runAsNonRoot"]
        assert security["runAsUser"] > 0
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        assert {"secret", "configMap"} >= {kind for volume in spec.get("volumes", []) for kind in volume} - {"name"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "initContainers"} & set(spec)
        (container,) = spec["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
def test_no_pod_has_a_limit_of_cpu_and_each_has_one_of_memory(values: JsonObject) -> None:
    for spec in pod_specs(render(values)).values():
        resources = spec["containers"][0]["resources"]
        assert set(resources["limits"]) == {"memory"}
        assert set(resources["requests"]) == {"cpu", "memory"}


def test_no_image_is_the_latest() -> None:
    images = {spec["containers"][0]["image"] for spec in pod_specs(render()).values()}
    assert images == {"gpu-reservations:0.1.0"}
    pinned = {spec["containers"][0]["image"] for spec in pod_specs(render(SETS["everything on"])).values()}
    assert pinned == {f"gpu-reservations@sha256:{'0' * 64}"}


def test_probes_have_a_port_of_their_own() -> None:
    (container,) = pod_specs(render())["gpures-webhook"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert len(set(ports.values())) == 2
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "probes"
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert environment["GPURES_PROBE_PORT"] == str(ports["probes"])
    assert environment["GPURES_LISTEN_PORT"] == str(ports["https"])


@pytest.mark.parametrize("drain", [0, 15, 60])
def test_the_grace_period_is_longer_than_everything_that_stopping_takes(drain: int) -> None:
    spec = pod_specs(render({"webhook": {"drainSeconds": drain}}))["gpures-webhook"]
    claims, tasks = 1, 5
    assert spec["terminationGracePeriodSeconds"] >= drain + 1 + STOP_WITHIN_S + 2 + claims + tasks + 5


def test_replicas_are_spread_and_go_one_at_a_time() -> None:
    documents = render()
    for part in ("gpures-webhook", "gpures-reconciler"):
        deployment = one(documents, "Deployment", part)
        selector = deployment["spec"]["selector"]["matchLabels"]
        assert deployment["spec"]["replicas"] == 2
        assert one(documents, "PodDisruptionBudget", part)["spec"]["maxUnavailable"] == 1
        assert one(documents, "PodDisruptionBudget", part)["spec"]["selector"]["matchLabels"] == selector
        pod = deployment["spec"]["template"]["spec"]
        # One key alone: nodes that lack one of several get no score from any, and most clusters have no zones.
        (spread,) = pod["topologySpreadConstraints"]
        (apart,) = pod["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
        terms = (spread, apart["podAffinityTerm"])
        assert [term["topologyKey"] for term in terms] == ["kubernetes.io/hostname", "topology.kubernetes.io/zone"]
        assert {str(term["labelSelector"]["matchLabels"]) for term in terms} == {str(selector)}


def test_the_network_lets_reviews_in_from_anywhere_and_metrics_from_those_named() -> None:
    peers = [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}]
    shipped, named = render(), render({"networkPolicy": {"metricsFrom": peers}})
    https = {"ports": [{"port": "https", "protocol": "TCP"}]}
    metrics = {"ports": [{"port": "probes", "protocol": "TCP"}], "from": peers}
    assert one(shipped, "NetworkPolicy", "gpures-webhook")["spec"]["ingress"] == [https]
    assert one(shipped, "NetworkPolicy", "gpures-reconciler")["spec"]["ingress"] == []
    assert one(named, "NetworkPolicy", "gpures-webhook")["spec"]["ingress"] == [https, metrics]
    assert one(named, "NetworkPolicy", "gpures-reconciler")["spec"]["ingress"] == [metrics]


# Certificates


def secrets(values: JsonObject) -> set[str]:
    return {entry["metadata"]["name"] for entry in render(values) if entry["kind"] == "Secret"}


def test_no_secret_has_anything_in_it() -> None:
    assert [
        entry for entry in render() if entry["kind"] == "Secret" and ("data" in entry or "stringData" in entry)
    ] == []


@pytest.mark.parametrize("mode", ["selfManaged", "certManager", "files"])
def test_only_what_we_rotate_is_ours_to_write(mode: str) -> None:
    values: JsonObject = {"certificates": {"mode": mode, "caBundle": "PEM", "secretName": "serving"}}
    documents = render(values)
    roles = [entry for entry in documents if entry["metadata"]["name"] == "gpures-reconciler-certificates"]
    assert (len(roles), secrets(values)) == (
        (4, {"serving", "gpures-webhook-ca"}) if mode == "selfManaged" else (0, set())
    )
    for role in roles:
        if role["kind"] == "Role":
            assert role["rules"][1]["resourceNames"] == ["serving", "gpures-webhook-ca"]
    (container,) = pod_specs(documents)["gpures-reconciler"]["containers"]
    assert {"name": "GPURES_CERTS", "value": mode} in container["env"]
    (volume,) = pod_specs(documents)["gpures-webhook"]["volumes"]
    assert volume["secret"]["secretName"] == "serving"


def test_others_inject_the_ca() -> None:
    managed = one(render(SETS["cert-manager"]), "MutatingWebhookConfiguration", "zz-gpures")
    assert managed["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "gpures-system/gpures-webhook"}
    given = one(render(SETS["certificate files"]), "ValidatingWebhookConfiguration", "zz-gpures")
    assert {entry["clientConfig"]["caBundle"] for entry in given["webhooks"]} == {"UEVN"}
    certificate = one(render(SETS["cert-manager"]), "Certificate", "gpures-webhook")
    assert certificate["spec"]["issuerRef"]["name"] == "gpures-webhook"
    assert "gpures-webhook.gpures-system.svc" in certificate["spec"]["dnsNames"]
