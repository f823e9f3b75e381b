"""The release before this one: chart and image of the newest tag, or of the last change before the newest."""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from tests.chart.reference import ROOT
from tests.kind import images, kinds
from tests.kind.images import Image
from tests.kind.running import UnableError, lines, run

SHIPPED: Final = (
    "deploy/base",
    "deploy/chart",
    "deploy/crds",
    "deploy/policies",
    "webhook",
    "reconciler",
    "common",
    "certs",
)


@dataclass(frozen=True)
class Previous:
    """What was shipped, and where its chart lies now."""

    revision: str
    chart: Path
    image: Image


@contextmanager
def previous() -> Iterator[Previous]:
    """Its image is kept under the name of its commit: a second run finds it."""
    revision = _revision()
    with TemporaryDirectory(prefix="gpures-previous-") as folder:
        tree = Path(folder)
        archive = tree / "tree.tar"
        run("git", "archive", f"--output={archive}", revision, cwd=ROOT)
        run("tar", "--extract", f"--file={archive}", f"--directory={tree}")
        image = Image("gpu-reservations", revision)
        if not images.on_this_machine(str(image)):
            # Tools are ours, so that nothing has to be made for one image: its venv stays out of it.
            (tree / ".cache").symlink_to(ROOT / ".cache")
            images.build(image, tree, "--old-file=venv", f"BIN={ROOT / '.venv' / 'bin'}")
        kinds.load(os.environ["GPURES_KIND_CLUSTER"], str(image))
        yield Previous(revision, tree / "deploy" / "chart", image)


def _revision() -> str:
    """A commit, short."""
    tags = lines("git", "tag", "--list", "v*", "--sort=-version:refname", cwd=ROOT)
    if tags:
        return lines("git", "rev-parse", "--short", f"{tags[0]}^{{commit}}", cwd=ROOT)[0]
    changes = lines("git", "log", "--format=%h", "--max-count=2", "--", *SHIPPED, cwd=ROOT)
    if len(changes) < 2:
        message = "this checkout has no history, so there is no release before this one"
        raise UnableError(message)
    return changes[1]
