"""What every loop is given."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta

from common.adapters.events import EventRecorder
from common.domain.texts import Display
from common.domain.time import SURE, Clock, Instant
from reconciler.agenda import Agenda
from reconciler.counts import Counts
from reconciler.queue import NotNow, Work
from reconciler.state import ClusterState
from reconciler.writes import Writes


@dataclass(frozen=True, slots=True)
class World:
    state: ClusterState
    counts: Counts
    clock: Clock
    agenda: Agenda[Work]
    touch: Callable[[Work], None]
    writes: Writes
    events: EventRecorder
    display: Display
    synced: Callable[[], bool]
    """False until every cache has been listed, and again while one may tell of a history that has ended."""
    fresh: Callable[[], bool]
    """False while a watch is stale: then nothing is denied, counted or removed (R4)."""
    stamp: Callable[[], str]
    """Names this leader's term; what it announces carries it (R8)."""
    event_repeat: timedelta = timedelta(minutes=30)
    rounds: Counter[str] = field(default_factory=Counter)
    """Rounds of confirmation that wrote anything, by class. What is announced names its round: an announcement made
    anew has to change the object, or a late write of the round before would still find its version."""
    in_vain: dict[str, Instant] = field(default_factory=dict)
    """When a round of a class last ended with nothing that could be stored; its announcements call for the next one."""

    @property
    def now(self) -> Instant:
        """The instant to decide by. Whatever is decided asks for it, so here is where nothing is decided (R4).

        Raises NotNow while the API server's time is disputed or unknown, or what it stores is.
        """
        if not self.certain():
            raise NotNow
        return self.clock.now()

    def certain(self) -> bool:
        """Whether anything may be decided."""
        return self.clock.uncertainty() <= SURE and self.synced()
