"""`python -m tests.kind [pytest arguments]`: the suite on a kind cluster, made for it unless one is given.

KUBECONFIG or KIND_CLUSTER: use this cluster. KIND_NODE_IMAGE: another node image. IMAGE: a ready image of the product.
BASE: another base for the one that is built. KEEP=1: leave everything standing.
"""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.controlplane.toolchain import NoToolchainError
from tests.kind import images, kinds, report
from tests.kind.cluster import KindCluster
from tests.kind.running import UnableError, say

HERE = Path(__file__).parent


def main(arguments: list[str]) -> int:
    """Make what is missing, run the suite, and write down what was seen."""
    try:
        kinds.require_engine()
        with tempfile.TemporaryDirectory(prefix="gpures-kind-") as folder, _cluster(Path(folder)) as (name, kubeconfig):
            image = images.product_image()
            for each in (image, images.workload_image(Path(folder) / "workload")):
                kinds.load(name, str(each))
            os.environ["GPURES_KIND_KUBECONFIG"], os.environ["GPURES_KIND_IMAGE"] = str(kubeconfig), str(image)
            outcomes = report.Outcomes()
            code = int(pytest.main([str(HERE), "--timeout=600", *arguments], plugins=[outcomes]))
            with KindCluster(kubeconfig) as cluster:
                about = report.about(cluster, str(image))
            say(f"{outcomes.sentence()} on {about.sentence()}")
            if not arguments:
                report.write(about, outcomes)
    except (UnableError, NoToolchainError) as reason:
        say(str(reason))
        return 3
    return code


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


sys.exit(main(sys.argv[1:]))
