"""Where the end-to-end tests play: the product on some cluster, whoever made it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from tests.controlplane.product import Product
from tests.e2e.stage import Stage


class Venue(Protocol):
    """The same product for many tests, and a stage for each."""

    def stage(self) -> Stage:
        """Nothing is on it yet; whoever takes it closes it."""
        ...

    def webhooks_stopped(self) -> AbstractContextManager[None]:
        """No webhook answers until the block ends."""
        ...


@dataclass(frozen=True)
class PlainVenue:
    """Processes of ours on a control plane of processes."""

    product: Product

    def stage(self) -> Stage:
        return Stage(self.product)

    def webhooks_stopped(self) -> AbstractContextManager[None]:
        return self.product.webhooks_stopped()
