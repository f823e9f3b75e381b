"""What is shown at one moment, frozen: the views draw it and know nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum


class Topic(Enum):
    """Whose line it is."""

    STEP = "step"
    USER = "user"
    POD = "pod"
    RESERVATION = "reservation"
    PART = "part"


class State(Enum):
    """Where a pod stands, in the order in which pods are listed."""

    HELD = "held"
    STUCK = "no node"
    LET_IN = "let in"
    RUNNING = "running"
    DONE = "done"


@dataclass(frozen=True)
class Line:
    """One thing that happened, `at` seconds after the start."""

    at: float
    topic: Topic
    who: str
    text: str


@dataclass(frozen=True)
class Lane:
    """One reservation; without a window where nothing is promised."""

    name: str
    gpu_class: str
    units: int
    claimed: int
    phase: str
    window: tuple[datetime, datetime] | None
    remark: str = ""


@dataclass(frozen=True)
class PodRow:
    """One pod: where it runs, or why it waits and until when."""

    name: str
    gpu_class: str
    units: int
    state: State
    reason: str = ""
    detail: str = ""
    until: datetime | None = None


@dataclass(frozen=True)
class ClassRow:
    """One class: units on nodes, promised, and used by pods."""

    name: str
    bookable: int
    reserved: int
    claimed: int


@dataclass(frozen=True)
class Part:
    """One process of ours."""

    name: str
    up: bool
    leads: bool = False


@dataclass(frozen=True)
class Told:
    """The step of the story that is being told, and what a user read last in it."""

    number: int = 0
    of: int = 0
    title: str = ""
    sentence: str = ""
    quote: str = ""


@dataclass(frozen=True)
class Snapshot:
    """Everything that is shown."""

    now: datetime
    elapsed: float
    told: Told = Told()
    parts: tuple[Part, ...] = ()
    classes: tuple[ClassRow, ...] = ()
    lanes: tuple[Lane, ...] = ()
    pods: tuple[PodRow, ...] = ()
    lines: tuple[Line, ...] = ()
