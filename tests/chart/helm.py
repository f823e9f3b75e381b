"""The real helm on our chart."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.controlplane.discovery import JsonObject
from tests.controlplane.programs import ensure_programs

CHART = Path(__file__).resolve().parents[2] / "deploy" / "chart"
RELEASE = "gpures"
NAMESPACE = "gpures-system"
NEWEST = "1.37.0"
HOLD_API = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"
DEADLINE_S = 120.0


def helm(*arguments: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run helm with nobody's settings."""
    with tempfile.TemporaryDirectory(prefix="gpures-helm-") as home:
        done = subprocess.run(
            [str(ensure_programs().helm), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
            env={"HOME": home, "PATH": ""},
        )
    if check and done.returncode != 0:
        message = f"helm {' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        raise RuntimeError(message)
    return done


def render(
    values: Mapping[str, Any] | None = None,
    *,
    namespace: str = NAMESPACE,
    kubernetes: str = NEWEST,
    hold_api: bool = True,
    hooks: bool = True,
    chart: Path = CHART,
) -> Sequence[JsonObject]:
    """Return the objects of the chart, in helm's order."""
    text = _template(json.dumps(values or {}), namespace, kubernetes, hold_api, hooks, chart)
    return [document for document in yaml.safe_load_all(text) if document]


@cache
def _template(values: str, namespace: str, kubernetes: str, hold_api: bool, hooks: bool, chart: Path) -> str:
    arguments = ["template", RELEASE, str(chart), "--namespace", namespace, "--kube-version", kubernetes]
    if hold_api:
        arguments += ["--api-versions", HOLD_API]
    if not hooks:
        arguments.append("--no-hooks")
    return helm(*arguments, "--values", "-", stdin=values).stdout


def hook(document: JsonObject) -> str:
    """Name of the hook that an object belongs to, empty for one of the release itself."""
    return str(document["metadata"].get("annotations", {}).get("helm.sh/hook", ""))


def one(documents: Sequence[JsonObject], kind: str, name: str) -> JsonObject:
    """Return the only object of that kind and name."""
    (found,) = [entry for entry in documents if entry["kind"] == kind and entry["metadata"]["name"] == name]
    return found


def pod_specs(documents: Sequence[JsonObject]) -> dict[str, JsonObject]:
    """Pod templates by the name of what makes pods of them."""
    return {
        entry["metadata"]["name"]: entry["spec"]["template"]["spec"]
        for entry in documents
        if entry["kind"] in {"Deployment", "Job"}
    }
