"""Pods that were let in and that no node took: once their guarantee is over they must not start any more.

A toleration cannot be taken out of a stored pod, and a gate cannot be put in. What waits for a node with our toleration
could be placed at any later time, outside of every window of its holder; only its removal keeps it off (ADR 0010).
"""

from collections.abc import Iterable

from common.domain.gpu_class import GpuClass, Mode
from common.domain.pod import PodView
from common.domain.reservation import OPENABLE, Reservation


def is_unplaced(pod: PodView) -> bool:
    """Let in by us and bound to no node yet, whatever keeps it: a selector, a full node, somebody else's gate."""
    return pod.admitted and pod.token is not None and not pod.node and pod.live and not pod.deleting and not pod.mirror


def overdue(pods: Iterable[PodView], reservations: Iterable[Reservation], gpu_class: GpuClass) -> list[PodView]:
    """Those of a namespace's unplaced pods whose guarantee has ended, the longest let in first.

    `reservations` are all of the namespace, listed after the pods were seen: a claim is stored before a pod is let in.
    A guarantee reaches as far as claims stand (R3): while any reservation that can hold a promise has the pod's claim,
    it lasts, also past the end of the window; the reservation is ended first, at the late edge of the clock (R9) and
    under a test of its promise, so that no extension is overtaken.
    """
    standing = {token for r in reservations if r.phase in OPENABLE for token in r.claims}
    return sorted(
        (
            pod
            for pod in pods
            if is_unplaced(pod) and pod.token not in standing and gpu_class.mode_in(pod.namespace) is Mode.ENFORCE
        ),
        key=lambda pod: (pod.created, pod.name),
    )
