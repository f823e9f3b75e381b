"""Where the end-to-end tests play on kind: the release, and the nodes of the cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.kind.installation import Installation
from tests.kind.stage import KindStage


@dataclass(frozen=True)
class KindVenue:
    """The release that the whole run shares."""

    installation: Installation

    def stage(self) -> KindStage:
        self.installation.ensure()
        return KindStage(self.installation)

    @contextmanager
    def webhooks_stopped(self) -> Iterator[None]:
        """No replica of the Deployment, until the block ends."""
        self.installation.scale("gpures-webhook", 0)
        try:
            yield
        finally:
            self.installation.scale("gpures-webhook", 2)
