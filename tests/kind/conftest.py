"""Every test here is for a cluster of kind, and has a stage that is open already."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kind.installation import Installation
from tests.kind.stage import KindStage


@pytest.fixture
def stage(installation: Installation) -> Iterator[KindStage]:
    """A class of its own, with more GPUs than any test books."""
    installation.ensure()
    stage = KindStage(installation)
    try:
        stage.open(24)
        yield stage
    finally:
        stage.close()
