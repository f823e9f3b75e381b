"""The latest count of each class: made anew when asked for, unless it is dear and was just made."""

from collections.abc import Callable

from common.domain import inventory
from common.domain.gpu_class import GpuClass
from common.domain.time import Clock
from reconciler.state import ClusterState

COST_RATIO = 10.0
"""A count that took 1 ms may be 10 ms old: counting never takes more than a tenth of the process."""


class Counts:
    def __init__(self, state: ClusterState, clock: Clock, monotonic: Callable[[], float]) -> None:
        self._state = state
        self._clock = clock
        self._monotonic = monotonic
        self._made: dict[str, tuple[float, float, inventory.Count]] = {}

    def known_for_s(self, gpu_class: GpuClass) -> float:
        """How much longer `of` answers from memory; 0 when the next one is made anew."""
        known = self._made.get(gpu_class.name)
        return max(0.0, known[0] + known[1] * COST_RATIO - self._monotonic()) if known is not None else 0.0

    def forget(self, class_name: str) -> None:
        self._made.pop(class_name, None)

    def of(self, gpu_class: GpuClass) -> inventory.Count:
        now_s = self._monotonic()
        known = self._made.get(gpu_class.name)
        if known is not None:
            made_s, cost_s, count = known
            if now_s - made_s < cost_s * COST_RATIO:
                return count
        count = inventory.count(
            gpu_class,
            self._state.nodes_of(gpu_class.label),
            self._state.pods_counted(gpu_class.label),
            self._state.reservations_of(gpu_class.name),
            self._clock.now(),
        )
        end_s = self._monotonic()
        self._made[gpu_class.name] = (end_s, end_s - now_s, count)
        return count
