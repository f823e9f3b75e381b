"""Builds the control plane's programs from Go modules, once, into a cache folder."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.controlplane.toolchain import find_go, go_environment

HERE = Path(__file__).parent
KUBERNETES = "v1.37.2"
BUILD_DEADLINE_S = 3600.0
REPORT_EVERY_S = 10.0


def _kubernetes_ldflags() -> str:
    # Without these /version answers a template that clients cannot parse.
    _, minor, _ = KUBERNETES.split(".")
    values = {
        "gitVersion": KUBERNETES,
        "gitMajor": "1",
        "gitMinor": minor,
        "gitTreeState": "clean",
        "gitCommit": "gomod",
        "buildDate": "2026-01-01T00:00:00Z",
    }
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(
        ["-s -w", *(f"-X {package}.{name}={value}" for package in packages for name, value in values.items())]
    )


@dataclass(frozen=True)
class Recipe:
    """One program: which package it is built from, in which of our Go modules."""

    name: str
    module: str
    package: str
    ldflags: str


K8S = _kubernetes_ldflags()
RECIPES = (
    Recipe("etcd", "tools", "go.etcd.io/etcd/server/v3", K8S),
    Recipe("kube-apiserver", "tools", "k8s.io/kubernetes/cmd/kube-apiserver", K8S),
    Recipe("kubectl", "tools", "k8s.io/kubernetes/cmd/kubectl", K8S),
    Recipe("kube-scheduler", "tools", "k8s.io/kubernetes/cmd/kube-scheduler", K8S),
    Recipe("kube-controller-manager", "tools", "k8s.io/kubernetes/cmd/kube-controller-manager", K8S),
    Recipe("kwok", "tools-kwok", "sigs.k8s.io/kwok/cmd/kwok", "-s -w"),
    Recipe("helm", "tools-helm", "helm.sh/helm/v4/cmd/helm", "-s -w"),
    Recipe("promql", "tools-promql", ".", "-s -w"),
)
FROM_KUBEBUILDER = frozenset({"etcd", "kube-apiserver", "kubectl"})


@dataclass(frozen=True)
class Programs:
    """Where each program is."""

    etcd: Path
    kube_apiserver: Path
    kubectl: Path
    kube_scheduler: Path
    kube_controller_manager: Path
    kwok: Path
    helm: Path
    promql: Path


def cache_folder(recipe: Recipe) -> Path:
    """Return the folder of this program, named by everything that goes into the build."""
    digest = hashlib.sha256()
    folder = HERE / recipe.module
    for part in (folder / "go.mod", folder / "go.sum", *sorted(folder.glob("*.go"))):
        digest.update(part.read_bytes())
    digest.update(f"{recipe.ldflags} {platform.system()} {platform.machine()}".encode())
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "gpu-reservations" / digest.hexdigest()[:16]


def ensure_programs() -> Programs:
    """Return the programs, building those that are missing."""
    places = {recipe.name: _place(recipe) for recipe in RECIPES}
    missing = [recipe for recipe in RECIPES if not places[recipe.name].is_file()]
    if missing:
        _build_all(missing)
    return Programs(**{name.replace("-", "_"): path for name, path in places.items()})


def _place(recipe: Recipe) -> Path:
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and recipe.name in FROM_KUBEBUILDER:
        given = Path(assets) / recipe.name
        if given.is_file():
            return given
    return cache_folder(recipe) / recipe.name


def _build_all(missing: list[Recipe]) -> None:
    go = find_go()
    folder = cache_folder(missing[0]).parent
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / "build.lock"):
        left = [recipe for recipe in missing if not _place(recipe).is_file()]
        if not left:
            return
        _say(f"building {', '.join(recipe.name for recipe in left)} from source with {go} into {folder}")
        _say(
            "the first time this takes minutes (about 15 on two cores, with 1.4 GB of downloads "
            "and up to 5 GB of build cache); afterwards nothing is built"
        )
        started = time.monotonic()
        for number, recipe in enumerate(left, start=1):
            _build(go, recipe, f"{number} of {len(left)}: {recipe.name}")
        _say(f"built in {time.monotonic() - started:.0f} s")


def _build(go: Path, recipe: Recipe, title: str) -> None:
    target = _place(recipe)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="building-", dir=target.parent) as workshop:
        result = Path(workshop) / recipe.name
        command = [
            str(go),
            "build",
            "-v",
            "-mod=readonly",
            "-trimpath",
            f"-ldflags={recipe.ldflags}",
            "-o",
            str(result),
            recipe.package,
        ]
        started = time.monotonic()
        _say(title)
        lines: list[str] = []
        with subprocess.Popen(
            command, cwd=HERE / recipe.module, env=go_environment(), stderr=subprocess.PIPE, text=True
        ) as build:
            try:
                _follow(build, title, started, lines)
                code = build.wait(timeout=BUILD_DEADLINE_S)
            except BaseException:
                build.kill()
                raise
        if code != 0:
            message = f"go build of {recipe.package} failed ({code}):\n" + "\n".join(lines[-20:])
            raise RuntimeError(message)
        # A rename is atomic: whoever looks sees the whole program or none.
        result.rename(target)


def _follow(build: subprocess.Popen[str], title: str, started: float, lines: list[str]) -> None:
    assert build.stderr is not None
    reported, compiled, fetched = started, 0, 0
    for line in build.stderr:
        lines.append(line.rstrip())
        if line.startswith("go: downloading"):
            fetched += 1
        else:
            compiled += 1
        now = time.monotonic()
        if now - started > BUILD_DEADLINE_S:
            message = f"go build took longer than {BUILD_DEADLINE_S:.0f} s"
            raise TimeoutError(message)
        if now - reported >= REPORT_EVERY_S:
            reported = now
            _say(f"{title}: {fetched} modules fetched, {compiled} packages compiled, {now - started:.0f} s")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another run is building; waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _say(text: str) -> None:
    print(f"control plane: {text}", file=sys.stderr, flush=True)
