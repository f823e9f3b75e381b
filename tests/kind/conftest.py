"""The cluster and the release that `python -m tests.kind` prepared; started by hand these tests are skipped."""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kind.cluster import KindCluster
from tests.kind.images import Image
from tests.kind.installation import Installation
from tests.kind.stage import KindStage


@pytest.fixture(scope="session")
def cluster() -> Iterator[KindCluster]:
    """The cluster of GPURES_KIND_KUBECONFIG."""
    kubeconfig = os.environ.get("GPURES_KIND_KUBECONFIG")
    if not kubeconfig:
        pytest.skip("no kind cluster: start this suite with python -m tests.kind")
    with KindCluster(Path(kubeconfig)) as running:
        yield running


@pytest.fixture(scope="session")
def installation(cluster: KindCluster) -> Iterator[Installation]:
    """The release; it goes with the session, and what it leaves goes too."""
    installation = Installation(cluster, Image.parse(os.environ["GPURES_KIND_IMAGE"]))
    try:
        installation.install()
        yield installation
    finally:
        if not os.environ.get("KEEP"):
            if installation.installed():
                installation.uninstall()
            installation.remove_leavings()


@pytest.fixture
def stage(installation: Installation) -> Iterator[KindStage]:
    """A class of its own, with more GPUs than any test books."""
    stage = KindStage(installation)
    try:
        stage.open(24)
        yield stage
    finally:
        stage.close()
