"""The cluster and the release of a run of `python -m tests.kind`; the top-level conftest.py re-exports them."""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controlplane.fixtures import KIND_KUBECONFIG
from tests.kind.cluster import KindCluster
from tests.kind.images import Image
from tests.kind.installation import Installation


@pytest.fixture(scope="session")
def kind_cluster() -> Iterator[KindCluster]:
    """The cluster of GPURES_KIND_KUBECONFIG."""
    kubeconfig = os.environ.get(KIND_KUBECONFIG)
    if not kubeconfig:
        pytest.skip("needs a kind cluster: make e2e-kind")
    with KindCluster(Path(kubeconfig)) as running:
        yield running


@pytest.fixture(scope="session")
def installation(kind_cluster: KindCluster) -> Iterator[Installation]:
    """The release; it goes with the session, and what it leaves goes too."""
    installation = Installation(kind_cluster, Image.parse(os.environ["GPURES_KIND_IMAGE"]))
    try:
        installation.look_before()
        installation.install()
        yield installation
    finally:
        if not os.environ.get("KEEP"):
            installation.leave()
