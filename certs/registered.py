"""Whether our two webhook configurations are there at all: without one, its entries are asked by nobody."""

from collections.abc import Sequence

import structlog

from certs.inject import PATHS, Configuration
from common.adapters.metrics import WEBHOOK_CONFIGURATIONS_MISSING

log = structlog.get_logger(__name__)


class Registered:
    """Counts all the while and logs each change. What is missing is not made again: that is the installer's."""

    def __init__(self) -> None:
        self._missing: frozenset[str] = frozenset()

    def tell(self, found: Sequence[Configuration]) -> None:
        there = {configuration.path for configuration in found}
        missing = frozenset(kind for kind, path in PATHS.items() if path not in there)
        for kind in PATHS:
            WEBHOOK_CONFIGURATIONS_MISSING.labels(kind).set(kind in missing)
        for kind in sorted(missing - self._missing):
            log.error("webhooks.configuration_missing", kind=kind, hint="helm upgrade puts it back")
        for kind in sorted(self._missing - missing):
            log.info("webhooks.configuration_back", kind=kind)
        self._missing = missing

    def forget(self) -> None:
        """Who looks no more must not go on telling what it last saw."""
        self._missing = frozenset()
        WEBHOOK_CONFIGURATIONS_MISSING.clear()
