"""The release before this one: its chart and its image."""

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
from tests.support.older import PROGRAMS, release_before, unpack

SHIPPED: Final = ("deploy/base", "deploy/chart", "deploy/crds", "deploy/policies", *PROGRAMS)


@dataclass(frozen=True)
class Previous:
    """What was shipped, and where its chart lies now."""

    revision: str
    chart: Path
    image: Image


@contextmanager
def previous() -> Iterator[Previous]:
    """Its image is kept under the name of its commit: a second run finds it. Raises NoHistoryError."""
    revision = release_before(*SHIPPED)
    with TemporaryDirectory(prefix="gpures-previous-") as folder:
        tree = Path(folder) / revision
        unpack(revision, tree)
        image = Image("gpu-reservations", revision)
        if not images.on_this_machine(str(image)):
            # Tools are ours, so that nothing has to be made for one image: its venv stays out of it.
            (tree / ".cache").symlink_to(ROOT / ".cache")
            images.build(image, tree, "--old-file=venv", f"BIN={ROOT / '.venv' / 'bin'}")
        kinds.load(os.environ["GPURES_KIND_CLUSTER"], str(image))
        yield Previous(revision, tree / "deploy" / "chart", image)
