"""Values of the domain with sensible defaults; a test names only what it is about.

They are nine o'clock of a first of December: the reservation is confirmed, and open from 09:00 to 13:00.
"""

import itertools
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from common.domain import keys
from common.domain.gpu_class import ClassUnits, GpuClass
from common.domain.pod import NodeView, PodView, Toleration
from common.domain.reservation import Granted, ObjectKey, Phase, Reservation, Token, Wish
from common.domain.time import Instant, Window
from common.domain.tolerations import reserved_toleration

NINE = datetime(2026, 12, 1, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
GPU = "nvidia.com/gpu"

_versions = itertools.count(1000)


def at(hour: int, minute: int = 0, second: int = 0) -> Instant:
    """An instant of the day; hours beyond 23 are of the next ones."""
    return NINE.replace(hour=0) + timedelta(hours=hour, minutes=minute, seconds=second)


def window(start: int = 9, end: int = 13) -> Window:
    """From one hour of the day to another."""
    return Window(at(start), at(end))


def granted(units: int = 2, start: int = 9, end: int = 13) -> Granted:
    return Granted(window(start, end), units)


def a_pod(
    name: str = "trainer-0",
    namespace: str = "alice",
    *,
    gpus: int = 1,
    gpu_class: str = "h100",
    gated: bool = False,
    admitted: bool = False,
    token: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    **other: Any,
) -> PodView:
    """`admitted` gives it the toleration, `token` the claim, `gated` our gate."""
    tolerations: tuple[Toleration, ...] = (reserved_toleration(gpu_class),) if admitted else ()
    values: dict[str, Any] = {
        "key": ObjectKey(namespace, name),
        "uid": f"uid-{namespace}-{name}",
        "version": str(next(_versions)),
        "created": NINE,
        "class_label": gpu_class,
        "gates": (keys.GATE,) if gated else (),
        "tolerations": tolerations,
        "labels": {keys.CLASS_LABEL: gpu_class, **(labels or {})},
        "requests": {GPU: Decimal(gpus)} if gpus else {},
        "annotations": {**({keys.CLAIM: token} if token else {}), **(annotations or {})},
    }
    return PodView(**(values | other))


def a_node(name: str = "node-1", *, gpus: int = 8, gpu_class: str = "h100", **other: Any) -> NodeView:
    values: dict[str, Any] = {
        "name": name,
        "version": str(next(_versions)),
        "labels": {"kubernetes.io/hostname": name},
        "class_label": gpu_class,
        "allocatable": {GPU: Decimal(gpus)},
        "capacity": {GPU: Decimal(gpus)},
    }
    return NodeView(**(values | other))


def a_class(name: str = "h100", *, free: int | None = 8, **other: Any) -> GpuClass:
    """`free` units have been counted; None: nobody has counted yet."""
    values: dict[str, Any] = {
        "name": name,
        "uid": f"uid-{name}",
        "version": str(next(_versions)),
        "created": NINE,
        "label": name,
        "units": None
        if free is None
        else ClassUnits(physical=free, schedulable=free, bookable=free, free=free, largest_block=free),
    }
    return GpuClass(**(values | other))


def a_reservation(
    name: str = "sprint",
    namespace: str = "alice",
    *,
    gpu_class: str = "h100",
    units: int = 2,
    start: int = 9,
    end: int = 13,
    phase: Phase = Phase.CONFIRMED,
    claims: Mapping[str, int] | None = None,
    **other: Any,
) -> Reservation:
    """Holds a promise in every phase but those that hold none."""
    wish = Wish(gpu_class=gpu_class, units=units, start=at(start), end=at(end))
    promised = phase in (Phase.CONFIRMED, Phase.ACTIVE)
    values: dict[str, Any] = {
        "key": ObjectKey(namespace, name),
        "uid": f"uid-{namespace}-{name}",
        "version": str(next(_versions)),
        "created": NINE - HOUR,
        "generation": 1,
        "observed_generation": 1,
        "wish": wish,
        "phase": phase,
        "granted": granted(units, start, end) if promised else None,
        "claims": {Token(token): count for token, count in (claims or {}).items()},
    }
    return Reservation(**(values | other))
