"""deploy/kustomize/base: the chart with its defaults, one file for each object, for people without helm."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

from tests.chart import helm
from tests.controlplane.discovery import JsonObject

ROOT: Final = Path(__file__).resolve().parents[2]
BASE: Final = ROOT / "deploy" / "kustomize" / "base"
HEAD: Final = "# Generated from deploy/chart by `make kustomize`; do not edit.\n"
OF_HELM: Final = ("helm.sh/chart", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance")


def files() -> Mapping[str, str]:
    """Name and text of every file of the base."""
    namespace = yaml.safe_load((ROOT / "deploy" / "base" / "namespace.yaml").read_text().partition("---")[0])
    objects = [namespace, *map(_plain, helm.render(hooks=False))]
    found = {_name(document): HEAD + _yaml(document) for document in objects}
    assert len(found) == len(objects)
    listed = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": list(found)}
    return found | {"kustomization.yaml": HEAD + _yaml(listed)}


def write() -> None:
    """Bring the folder up to date."""
    BASE.mkdir(parents=True, exist_ok=True)
    wanted = files()
    for path in BASE.iterdir():
        if path.name not in wanted:
            path.unlink()
    for name, text in wanted.items():
        (BASE / name).write_text(text)


def present() -> Mapping[str, str]:
    """Name and text of every file that is there."""
    return {path.name: path.read_text() for path in BASE.iterdir()} if BASE.is_dir() else {}


def _plain(document: JsonObject) -> JsonObject:
    meta = dict(document["metadata"])
    meta["labels"] = {key: value for key, value in meta["labels"].items() if key not in OF_HELM}
    kept = {key: value for key, value in meta.pop("annotations", {}).items() if not key.startswith("helm.sh/")}
    return document | {"metadata": meta | ({"annotations": kept} if kept else {})}


def _name(document: JsonObject) -> str:
    """Bindings and policies share names, so the kind comes first."""
    kind = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", document["kind"]).lower()
    return f"{kind}--{document['metadata']['name']}.yaml"


def _yaml(document: JsonObject | Mapping[str, str | Sequence[str]]) -> str:
    return yaml.safe_dump(dict(document), sort_keys=False, width=120, allow_unicode=True)
