"""Which tolerations reach the reserved taint, judged as the scheduler judges (`v1.Toleration.ToleratesTaint`)."""

from collections.abc import Iterable

from common.domain import keys
from common.domain.gpu_class import GpuClass
from common.domain.pod import Requests, Toleration
from common.domain.units import asks_for, counted_natively


def reserved_toleration(class_label: str) -> Toleration:
    """The one that we add."""
    return Toleration(keys.TAINT, "Equal", class_label, "NoSchedule")


def names_taint(toleration: Toleration) -> bool:
    """Names the reserved key; whether the value is right does not matter for telling a forgery."""
    return toleration.key == keys.TAINT and toleration.effect in ("", "NoSchedule")


def is_wildcard(toleration: Toleration) -> bool:
    """Tolerates every key."""
    return not toleration.key and toleration.operator == "Exists" and toleration.effect in ("", "NoSchedule")


def forged(tolerations: Iterable[Toleration], requests: Requests, classes: Iterable[GpuClass]) -> bool:
    """True when an incoming pod brings its own way onto reserved nodes whose resource it asks for.

    Device plugins, exporters and node agents carry the toleration rightfully: they ask for no unit.
    """
    held = list(tolerations)
    exact = any(names_taint(toleration) for toleration in held)
    wildcard = any(is_wildcard(toleration) for toleration in held)
    if not (exact or wildcard):
        return False
    return any(asks_for(requests, gpu_class) and (exact or not counted_natively(gpu_class)) for gpu_class in classes)
