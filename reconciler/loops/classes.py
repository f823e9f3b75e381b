"""One class: rounds of confirmation, and the counts that operators and the webhook read."""

from datetime import timedelta

import structlog

from common.domain.reservation import TERMINAL
from reconciler.loops import confirming
from reconciler.queue import Work
from reconciler.world import World

log = structlog.get_logger(__name__)

COUNT_EVERY = timedelta(seconds=0.25)


class Classes:
    def __init__(self, world: World) -> None:
        self._world = world

    async def handle(self, work: Work) -> None:
        gpu_class = self._world.state.classes.get(work.name)
        if gpu_class is None:
            if any(r.phase not in TERMINAL for r in self._world.state.reservations_of(work.name)):
                await confirming.deny_unknown(self._world, work.name)
            return
        decides = self._world.state.class_of(gpu_class.label)
        if decides is not None and decides.name != gpu_class.name:
            await confirming.explain_conflict(self._world, gpu_class, decides)
            return
        await confirming.confirm(self._world, gpu_class)
