"""The chart's files and the pages beside it, as far as no helm is needed."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from common.config import ReconcilerSettings, WebhookSettings
from common.domain import keys
from tests.chart import reference
from tests.controlplane.discovery import JsonObject

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "chart"
RUNBOOKS = ROOT / "docs" / "runbooks"
ALERTS: list[JsonObject] = [
    rule for group in yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
DASHBOARD: JsonObject = json.loads((CHART / "files" / "dashboard.json").read_text())
SAMPLES = {name: family for family in reference.families() for name in reference.sample_names(family)}
CLOSED = {"action", "certificate", "count", "entry", "error", "gpu_class", "kind", "outcome", "phase", "planner"}
CLOSED |= {"reason", "step", "verdict"}


def queries() -> Iterator[tuple[str, str]]:
    for rule in ALERTS:
        yield rule["alert"], rule["expr"]
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


QUERIES = list(queries())


@pytest.mark.parametrize("folder", ["base", "crds", "policies"])
def test_the_plain_yaml_is_linked_and_not_copied(folder: str) -> None:
    link = CHART / "files" / folder
    assert link.is_symlink()
    assert link.resolve() == DEPLOY / folder


def test_chart_and_project_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert chart["version"] == chart["appVersion"] == project["version"]


@pytest.mark.parametrize("path", list(reference.pages()), ids=lambda path: path.name)
def test_the_generated_pages_are_up_to_date(path: Path) -> None:
    assert path.read_text() == reference.pages()[path], "run `make reference`"


# Alerts and dashboard


def test_every_alert_has_a_runbook_and_every_runbook_an_alert() -> None:
    assert {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"} == {rule["alert"] for rule in ALERTS}


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_what_it_means_and_how_bad_it_is(rule: JsonObject) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert set(rule["annotations"]) == {"summary", "description"}
    page = (RUNBOOKS / f"{rule['alert']}.md").read_text()
    assert page.startswith(f"# {rule['alert']}\n")
    assert "**Look.**" in page
    assert "**Do.**" in page


@pytest.mark.parametrize(("name", "expression"), QUERIES, ids=[name for name, _ in QUERIES])
def test_a_query_names_metrics_and_labels_that_are_there(name: str, expression: str) -> None:
    found = set(re.findall(r"\bgpures_\w+", expression))
    assert found <= set(SAMPLES)
    known = {"namespace", "component", "pod", "le"} | {
        label for metric in found for label in reference.metric_labels(SAMPLES[metric])
    }
    grouped = re.findall(r"(?:by|ignoring) \(([^)]*)\)", expression)
    matched = re.findall(r"(\w+)\s*(?:=~|!=|!~|=)\s*\"", expression)
    used = {label.strip() for group in grouped for label in group.split(",")} | set(matched)
    assert used <= known


def test_every_query_asks_about_one_installation_only() -> None:
    loose = [name for name, text in QUERIES if len(re.findall(r"\bgpures_\w+", text)) > text.count("namespace=")]
    assert loose == []


def test_no_metric_has_a_label_that_could_name_a_tenant() -> None:
    assert {label for family in SAMPLES.values() for label in reference.metric_labels(family)} <= CLOSED


def test_runbook_links_lead_somewhere() -> None:
    pages = [*RUNBOOKS.glob("*.md"), *(ROOT / "docs" / "how-to").glob("*.md")]
    links = [(page, link) for page in pages for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())]
    assert [str(page) + " " + link for page, link in links if not (page.parent / link).exists()] == []


# Values


def objects(node: JsonObject, path: str = "") -> Iterator[tuple[str, JsonObject]]:
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from objects(child, f"{path}.{name}".lstrip("."))


def test_the_schema_knows_every_value_and_no_other() -> None:
    for path, node in objects(reference.schema()):
        if "properties" in node and path.rpartition(".")[2] != "issuerRef":
            values: object = reference.values()
            for part in filter(None, path.split(".")):
                assert isinstance(values, dict)
                values = values[part]
            assert isinstance(values, dict), path
            assert sorted(values) == sorted(set(node["properties"]) - {"global"}), path


def test_the_schema_is_strict_and_explains_itself() -> None:
    loose = [
        path for path, node in objects(reference.schema()) if "properties" in node and node["additionalProperties"]
    ]
    silent = [path for path, node in objects(reference.schema()) if path and not node.get("description")]
    assert (loose, silent) == ([], [])


def test_the_values_that_stand_for_settings_have_their_defaults() -> None:
    certificates = reference.values()["certificates"]
    fields = ReconcilerSettings.model_fields
    assert certificates["mode"] == fields["certs"].default
    assert certificates["secretName"] == fields["cert_secret"].default
    assert certificates["caSecretName"] == fields["cert_ca_secret"].default
    drain = (CHART / "templates" / "webhook.yaml").read_text()
    assert str(WebhookSettings.model_fields["cert_file"].default) in drain


def test_the_install_check_names_the_keys_of_the_domain() -> None:
    text = (CHART / "files" / "check.py").read_text()
    assert all(f'"{name}' in text for name in (keys.GATE, keys.CLAIM, keys.TAINT, keys.CLASS_LABEL))


# Image


def test_the_image_runs_as_a_number_and_pulls_nothing_when_wheels_are_there() -> None:
    lines = (DEPLOY / "Dockerfile").read_text()
    stages = lines.split("\nFROM ")
    assert [stage.splitlines()[0] for stage in stages[1:]] == ["${BASE} AS build", "${BASE}"]
    assert "USER 65532:65532" in stages[2]
    assert "\nRUN" not in stages[2]
    assert "--no-index" in stages[1]
    assert "--require-hashes" in stages[1]


def test_the_build_context_holds_only_what_is_copied() -> None:
    wanted = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {
        word.rstrip("*")
        for line in (DEPLOY / "Dockerfile").read_text().splitlines()
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    }
    assert copied == wanted
