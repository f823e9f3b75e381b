"""`python -m tests.kind [pytest arguments]`: the suite on a kind cluster, made for it unless one is given.

KUBECONFIG or KIND_CLUSTER: use this cluster. KIND_NODE_IMAGE, KIND_CONFIG: make one with another node image, or from
another file than deploy/kind/cluster.yaml. IMAGE: a ready image of the product.
BASE: another base for the one that is built. KEEP=1: leave everything standing. TESTED_ON=1: a run of some tests, too,
gets its row in docs/reference/tested-on.md.
"""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.controlplane.fixtures import KIND_KUBECONFIG
from tests.controlplane.toolchain import NoToolchainError
from tests.kind import report
from tests.kind.cluster import KindCluster
from tests.kind.preparing import prepared
from tests.kind.running import UnableError, say

HERE = Path(__file__).parent
FOLDERS = (HERE.parent / "e2e", HERE)
"""What runs on every cluster, then what only kind shows; uninstalling comes last."""


def main(arguments: list[str]) -> int:
    """Make what is missing, run the suite, and write down what was seen."""
    try:
        with prepared() as ready:
            os.environ[KIND_KUBECONFIG] = str(ready.kubeconfig)
            os.environ["GPURES_KIND_CLUSTER"], os.environ["GPURES_KIND_IMAGE"] = ready.name, str(ready.image)
            outcomes = report.Outcomes()
            code = int(pytest.main([*map(str, FOLDERS), "--timeout=600", *arguments], plugins=[outcomes]))
            with KindCluster(ready.kubeconfig) as cluster:
                about = report.about(cluster, str(ready.image))
            say(f"{outcomes.sentence()} on {about.sentence()}")
            if outcomes.whole or os.environ.get("TESTED_ON"):
                report.write(about, outcomes)
    except (UnableError, NoToolchainError) as reason:
        say(str(reason))
        return 3
    return code


sys.exit(main(sys.argv[1:]))
