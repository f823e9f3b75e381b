"""What helm makes of the chart, for the defaults and for what people change. Needs helm, and no cluster."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.chart import helm, kustomize
from tests.chart.helm import hook, one, pod_specs, render
from tests.chart.sets import SETS
from tests.controlplane.discovery import JsonObject

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FOREIGN = ("monitoring.coreos.com/", "cert-manager.io/")
VERSIONS = ("1.34", "1.35", "1.36", "1.37")
HOLD_SINCE = 36


def plain(*folders: str) -> Sequence[JsonObject]:
    paths = [path for folder in folders for path in sorted((DEPLOY / folder).glob("*.yaml"))]
    return [document for path in paths for document in yaml.safe_load_all(path.read_text()) if document]


def key(document: JsonObject) -> tuple[str, str, str]:
    meta = document["metadata"]
    return document["kind"], meta.get("namespace", ""), meta["name"]


def core(document: JsonObject) -> JsonObject:
    """Without what a release adds: its labels, and that a CRD stays."""
    meta = {name: value for name, value in document["metadata"].items() if name not in {"labels", "annotations"}}
    annotations = dict(document["metadata"].get("annotations", {}))
    annotations.pop("helm.sh/resource-policy", None)
    return document | {"metadata": meta | {"annotations": annotations}}


# The plain YAML


def test_the_defaults_install_the_plain_yaml_and_change_nothing_in_it() -> None:
    rendered = {key(document): document for document in render()}
    for document in plain("base", "crds", "policies"):
        if document["kind"] == "Namespace":
            continue
        assert core(rendered[key(document)]) == core(document)
        labels = document["metadata"].get("labels", {})
        assert labels.items() <= rendered[key(document)]["metadata"]["labels"].items()


def test_another_namespace_is_named_everywhere() -> None:
    documents = render(namespace="gpu-system")
    assert [key(document) for document in documents if helm.NAMESPACE in yaml.safe_dump(document)] == []
    ours = [rule for entry in documents for rule in entry.get("webhooks", [])]
    assert {entry["clientConfig"]["service"]["namespace"] for entry in ours} == {"gpu-system"}
    fence = yaml.safe_dump(one(documents, "ValidatingAdmissionPolicy", "gpures-fence"), width=1000)
    assert "system:serviceaccount:gpu-system:gpures-reconciler" in fence


def test_crds_are_upgraded_and_kept() -> None:
    assert not (helm.CHART / "crds").exists()
    crds = [document for document in render() if document["kind"] == "CustomResourceDefinition"]
    assert [entry["metadata"]["annotations"]["helm.sh/resource-policy"] for entry in crds] == ["keep", "keep"]
    loose = render({"crds": {"keep": False}})
    assert "annotations" not in one(loose, "CustomResourceDefinition", "gpuclasses.gpures.dev")["metadata"]


@pytest.mark.parametrize(
    ("value", "served", "installed"),
    [("auto", True, True), ("auto", False, False), ("on", False, True), ("off", True, False)],
)
def test_the_policies_that_mutate_go_where_they_are_served(value: str, *, served: bool, installed: bool) -> None:
    documents = render({"policies": {"hold": value}}, hold_api=served)
    names = {d["metadata"]["name"] for d in documents if d["kind"] == "MutatingAdmissionPolicy"}
    assert names == ({"gpures-hold", "gpures-default"} if installed else set())


def test_the_fence_has_the_lists_of_the_values() -> None:
    name = ("ValidatingAdmissionPolicyBinding", "gpures-fence")
    shipped = one(render(), *name)["metadata"]["annotations"]
    documents = render({"fence": {"installers": ["helm", "argo"], "infrastructureNamespaces": []}})
    assert one(documents, *name)["metadata"]["annotations"] == shipped | {
        "gpures.dev/fence-installers": "helm,argo",
        "gpures.dev/fence-infrastructure-namespaces": "",
    }


def test_excluded_namespaces_are_left_alone_wherever_ours_is() -> None:
    documents = render({"excludedNamespaces": ["infra"]})
    lists = [values for document in documents for values in left_alone(document)]
    assert len(lists) > 4
    assert [values for values in lists if values[-2:] != [helm.NAMESPACE, "infra"]] == []


def left_alone(document: JsonObject) -> Iterator[Sequence[str]]:
    matches = [*document.get("webhooks", []), document.get("spec", {}).get("matchConstraints") or {}]
    for match in matches:
        for expression in match.get("namespaceSelector", {}).get("matchExpressions", []):
            yield expression["values"]


@pytest.mark.parametrize("role", ["gpures-tenant-view", "gpures-tenant-edit", "gpures-classes-for-all"])
def test_roles_for_people_are_switches(role: str) -> None:
    names = {document["metadata"]["name"] for document in render()}
    without = {document["metadata"]["name"] for document in render(SETS["everything off"])}
    assert role in names - without


@pytest.mark.parametrize("policy", ["nodes", "devices", "unlabelled"])
def test_policies_that_hold_without_a_class_are_switches(policy: str) -> None:
    names = {document["metadata"]["name"] for document in render()}
    without = {document["metadata"]["name"] for document in render({"policies": {policy: False}})}
    assert names - without == {f"gpures-fence-{policy}"}


# Validity


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_is_valid(version: str) -> None:
    hold_api = int(version.partition(".")[2]) >= HOLD_SINCE
    seen: set[str] = set()
    for values in SETS.values():
        for document in render(values, kubernetes=f"{version}.0", hold_api=hold_api):
            text = json.dumps(document)
            foreign = document["apiVersion"].startswith(FOREIGN) or document["kind"] == "CustomResourceDefinition"
            if text not in seen and not foreign:
                kubernetes_validate.validate(document, version, strict=True)
            seen.add(text)


def test_an_old_cluster_is_refused() -> None:
    done = helm.helm("template", "r", str(helm.CHART), "--kube-version", "1.33.9", check=False)
    assert done.returncode != 0
    assert "incompatible with Kubernetes v1.33.9" in done.stderr


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"replicas": 3}, "additional properties 'replicas' not allowed"),
        ({"webhook": {"resources": {"limits": {"cpu": "1"}}}}, "cpu"),
        ({"policies": {"hold": True}}, "/policies/hold"),
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"certificates": {"mode": "files"}}, "certificates.caBundle"),
    ],
)
def test_a_wrong_value_is_refused_with_its_name(values: JsonObject, told: str) -> None:
    done = helm.helm("template", "r", str(helm.CHART), "--values", "-", stdin=json.dumps(values), check=False)
    assert done.returncode != 0
    assert told in done.stderr


def test_helm_lint_has_nothing_to_say() -> None:
    said = helm.helm("lint", "--strict", str(helm.CHART), "--kube-version", helm.NEWEST).stdout
    assert "0 chart(s) failed" in said


def test_the_base_for_kustomize_is_up_to_date() -> None:
    assert kustomize.present() == kustomize.files(), "run `make kustomize`"


# Hooks


def granted(documents: Sequence[JsonObject], name: str) -> list[Any]:
    return [
        rule
        for entry in documents
        if entry["kind"] in {"Role", "ClusterRole"} and entry["metadata"]["name"] == name
        for rule in entry["rules"]
    ]


def test_the_uninstall_hook_may_delete_what_it_is_told_to_and_nothing_else() -> None:
    documents = render()
    spec = pod_specs(documents)["gpures-uninstall"]
    told = {word for word in spec["containers"][0]["args"] if not word.startswith("--")}
    rules = granted(documents, "gpures-uninstall")
    may = {
        f"{resource}/{name}"
        for rule in rules
        if "delete" in rule["verbs"]
        for resource in rule["resources"]
        for name in rule["resourceNames"]
    }
    plural = {
        "MutatingAdmissionPolicy": "mutatingadmissionpolicies",
        "ValidatingAdmissionPolicy": "validatingadmissionpolicies",
    }
    installed = {
        f"{plural.get(entry['kind'], entry['kind'].lower() + 's')}/{entry['metadata']['name']}"
        for entry in documents
        if entry["apiVersion"].startswith("admissionregistration.k8s.io/")
    }
    assert told == may == installed | {"deployments/gpures-reconciler"}
    rest = [(rule["resources"], rule["verbs"]) for rule in rules if "delete" not in rule["verbs"]]
    assert rest == [(["pods"], ["list", "patch"]), (["pods/status"], ["patch"])]


def test_accounts_of_hooks_live_as_long_as_the_hook() -> None:
    documents = render()
    for name, kind in (("gpures-uninstall", "pre-delete"), ("gpures-install-check", "test")):
        parts = [entry for entry in documents if entry["metadata"]["name"] == name]
        assert {hook(entry) for entry in parts} == {kind}
        assert {"ServiceAccount", "Job", "ClusterRole"} <= {entry["kind"] for entry in parts}
        weights = {entry["kind"]: int(entry["metadata"]["annotations"]["helm.sh/hook-weight"]) for entry in parts}
        assert max(weights, key=lambda each: weights[each]) == "Job"


def test_the_uninstall_hook_gives_up_before_its_job_is_killed() -> None:
    job = one(render(), "Job", "gpures-uninstall")["spec"]
    (timeout,) = [word for word in job["template"]["spec"]["containers"][0]["args"] if "timeout" in word]
    assert int(timeout.partition("=")[2]) < job["activeDeadlineSeconds"]


# Monitoring


def test_alerts_link_their_runbooks_where_they_are_published() -> None:
    values = {"monitoring": {"prometheusRule": {"enabled": True, "runbookBaseUrl": "https://docs.example/runbooks/"}}}
    rules = one(render(values, namespace="gpu-system"), "PrometheusRule", "gpures")["spec"]["groups"][0]["rules"]
    assert rules[0]["annotations"]["runbook_url"] == "https://docs.example/runbooks/GpuresWebhookDown.md"
    assert 'namespace="gpu-system"' in rules[0]["expr"]
    assert "{{ $value | humanizeDuration }}" in "".join(rule["annotations"]["description"] for rule in rules)


def test_the_dashboard_is_the_file() -> None:
    data = one(render(SETS["everything on"]), "ConfigMap", "gpures-dashboard")["data"]["gpu-reservations.json"]
    assert json.loads(data) == json.loads((helm.CHART / "files" / "dashboard.json").read_text())
