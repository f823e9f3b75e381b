"""Clusters by kind: the one that is given, or a new one from deploy/kind."""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from tests.chart.reference import ROOT
from tests.controlplane.programs import Recipe, cache_folder
from tests.controlplane.toolchain import find_go, go_environment
from tests.kind.running import UnableError, lines, run, say

NAME: Final = "gpures-e2e"
CONFIG: Final = ROOT / "deploy" / "kind" / "cluster.yaml"
MODULE: Final = Path(__file__).parent / "tools"
KIND: Final = Recipe("kind", str(MODULE), "sigs.k8s.io/kind", "-s -w")
ENGINE_S: Final = 30.0


def require_engine() -> None:
    """Raise unless a Docker engine answers."""
    try:
        answered = run("docker", "info", deadline_s=ENGINE_S, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        answered = False
    if not answered:
        message = "no Docker engine answers here (docker info), and kind needs one"
        raise UnableError(message)


@cache
def kind() -> str:
    """The kind of PATH, otherwise the one of our Go module, built once."""
    found = shutil.which("kind")
    if found:
        return found
    target = cache_folder(KIND) / KIND.name
    if not target.is_file():
        say("building kind")
        target.parent.mkdir(parents=True, exist_ok=True)
        options: list[str | Path] = ["-mod=readonly", "-trimpath", f"-ldflags={KIND.ldflags}", "-o", target]
        run(find_go(), "build", *options, KIND.package, cwd=MODULE, env=go_environment())
    return str(target)


def given(folder: Path) -> tuple[str, Path] | None:
    """Name and kubeconfig of the cluster that the environment names."""
    name, kubeconfig = os.environ.get("KIND_CLUSTER", ""), os.environ.get("KUBECONFIG", "")
    if not name and not kubeconfig:
        return None
    clusters = lines(kind(), "get", "clusters")
    if name and name not in clusters:
        message = f"there is no kind cluster {name}; there are: {' '.join(clusters) or 'none'}"
        raise UnableError(message)
    if name:
        return name, _kubeconfig(name, folder)
    matching = [cluster for cluster in clusters if _server(_kubeconfig(cluster, folder)) == _server(Path(kubeconfig))]
    if not matching:
        message = f"KUBECONFIG={kubeconfig} is no kind cluster of this engine, so no image can be loaded into it"
        raise UnableError(message)
    return matching[0], Path(kubeconfig)


def create(folder: Path) -> tuple[str, Path]:
    """A new cluster."""
    image = os.environ.get("KIND_NODE_IMAGE")
    say(f"creating cluster {NAME}")
    options = ["--image", image] if image else []
    config = os.environ.get("KIND_CONFIG") or CONFIG
    kubeconfig = folder / "created.kubeconfig"
    try:
        run(
            *(kind(), "create", "cluster", "--name", NAME, "--config", config, "--wait", "180s"),
            *("--kubeconfig", kubeconfig),
            *options,
        )
    except RuntimeError as error:
        message = f"kind could not create a cluster: {str(error).strip().splitlines()[-1]}"
        raise UnableError(message) from error
    return NAME, kubeconfig


def delete(name: str) -> None:
    run(kind(), "delete", "cluster", "--name", name)


def load(name: str, image: str) -> None:
    """Put an image of this engine onto every node."""
    run(kind(), "load", "docker-image", image, "--name", name)


def _kubeconfig(name: str, folder: Path) -> Path:
    path = folder / f"{name}.kubeconfig"
    run(kind(), "export", "kubeconfig", "--name", name, "--kubeconfig", path)
    return path


def _server(kubeconfig: Path) -> str:
    (found,) = [line.split()[1] for line in kubeconfig.read_text().splitlines() if line.strip().startswith("server:")]
    return found
