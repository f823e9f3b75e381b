"""The two images of a run: the product's, made by `make image`, and what the pods of the tests run."""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.chart.reference import CHART, ROOT
from tests.controlplane.toolchain import find_go, go_environment
from tests.kind.running import UnableError, run, say

HERE: Final = Path(__file__).parent
BASE: Final = "python:3.13-slim"
OWN_BASE: Final = "gpures-base:bookworm"
OWN_PYTHON: Final = "3.11"
WORKLOAD: Final = "gpures-workload:test"
PULL_S: Final = 120.0


@dataclass(frozen=True)
class Image:
    """A reference without a digest."""

    repository: str
    tag: str

    @classmethod
    def parse(cls, reference: str) -> Image:
        repository, _, tag = reference.rpartition(":")
        if not repository or "/" in tag:
            message = f"IMAGE has to have a tag: {reference}"
            raise UnableError(message)
        return cls(repository, tag)

    def __str__(self) -> str:
        return f"{self.repository}:{self.tag}"


def product_image() -> Image:
    """IMAGE as it is, otherwise the one of deploy/Dockerfile under the name that the chart takes by default."""
    given = os.environ.get("IMAGE")
    if given:
        if not on_this_machine(given):
            run("docker", "pull", given)
        return Image.parse(given)
    (version,) = [line.split()[1] for line in (CHART / "Chart.yaml").read_text().splitlines() if "appVersion:" in line]
    image = Image("gpu-reservations", version)
    build(image, ROOT)
    return image


def build(image: Image, tree: Path, *options: str) -> None:
    """Make the product's image of a tree of it; the options are for its make."""
    base, python = _base()
    say(f"building {image} from {base}")
    named = [f"BASE={base}", f"IMAGE={image}", *([f"IMAGE_PYTHON={python}"] if python else [])]
    run("make", "image", *named, *options, cwd=tree)


def workload_image(folder: Path) -> Image:
    """One static program that is built here; the folder is used up."""
    shutil.copytree(HERE / "workload", folder, dirs_exist_ok=True)
    build: list[str | Path] = [find_go(), "build", "-trimpath", "-ldflags=-s -w", "-o", "workload", "."]
    run(*build, cwd=folder, env=go_environment())
    run("docker", "build", "--quiet", "--tag", WORKLOAD, folder)
    return Image.parse(WORKLOAD)


def on_this_machine(reference: str) -> bool:
    return run("docker", "image", "inspect", reference, check=False).returncode == 0


def _base() -> tuple[str, str]:
    """The base and its Python, empty where `make image` knows: what BASE says, the ordinary one, one from Debian."""
    given = os.environ.get("BASE")
    if given:
        return given, os.environ.get("IMAGE_PYTHON", "")
    if on_this_machine(BASE) or _pulled(BASE):
        return BASE, ""
    if not on_this_machine(OWN_BASE):
        if shutil.which("debootstrap") is None:
            message = f"{BASE} cannot be pulled and there is no debootstrap to make another base: name one with BASE"
            raise UnableError(message)
        say(f"{BASE} cannot be pulled: making {OWN_BASE} from Debian packages (minutes)")
        run(ROOT / "deploy" / "kind" / "debian-base", OWN_BASE)
    return OWN_BASE, OWN_PYTHON


def _pulled(reference: str) -> bool:
    say(f"pulling {reference}")
    return run("timeout", f"{PULL_S:.0f}", "docker", "pull", "--quiet", reference, check=False).returncode == 0
