"""What a run on kind starts with: a cluster, given or made for it, and on its nodes the two images."""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kind import images, kinds
from tests.kind.images import Image


@dataclass(frozen=True)
class Prepared:
    """Name and kubeconfig of the cluster, and the product's image."""

    name: str
    kubeconfig: Path
    image: Image


@contextmanager
def prepared() -> Iterator[Prepared]:
    """Raises UnableError with one sentence where this machine cannot do it; a cluster that was made goes again."""
    kinds.require_engine()
    with tempfile.TemporaryDirectory(prefix="gpures-kind-") as folder, _cluster(Path(folder)) as (name, kubeconfig):
        image = images.product_image()
        for each in (image, images.workload_image(Path(folder) / "workload")):
            kinds.load(name, str(each))
        yield Prepared(name, kubeconfig, image)


@contextmanager
def _cluster(folder: Path) -> Iterator[tuple[str, Path]]:
    """Name and kubeconfig of the cluster that is given, or of one that goes again."""
    given = kinds.given(folder)
    if given is not None:
        yield given
        return
    name, kubeconfig = kinds.create(folder)
    try:
        yield name, kubeconfig
    finally:
        if not os.environ.get("KEEP"):
            kinds.delete(name)
