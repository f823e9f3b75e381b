"""Which history of the API server's store the caches of a process tell of."""

from collections.abc import Callable


class History:
    """One for all reflectors of a process: where one of them finds that the store went back, none is believed (R4).

    A store goes back when etcd is restored from an older backup. What was seen of the time after that backup has never
    happened, and a watch from a version that is yet to come says nothing and fails at nothing.
    """

    def __init__(self) -> None:
        self.number = 0
        self._told: list[Callable[[], None]] = []

    def on_end(self, tell: Callable[[], None]) -> None:
        """Called whenever a history has ended, on the loop, before anything else is decided."""
        self._told.append(tell)

    def end(self) -> None:
        self.number += 1
        for tell in self._told:
            tell()
