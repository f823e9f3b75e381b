"""What each decision reads of an object: a change of anything else wakes nobody."""

from common.domain import keys
from common.domain.pod import PodView
from common.domain.reservation import Reservation


def told_in_vain(pod: PodView) -> bool:
    return bool(pod.held_reason) and pod.admitted and pod.live


def decided_by(pod: PodView) -> tuple[object, ...]:
    """What admission reads of a pod that can change: telling a pod why it waits is no reason to decide it again."""
    return (
        pod.uid,
        pod.phase,
        pod.node,
        pod.deleting,
        pod.gates,
        pod.tolerations,
        pod.labels,
        pod.token,
        pod.annotations.get(keys.USE_RESERVATION),
    )


def counted_by(pod: PodView) -> tuple[object, ...]:
    """What a count of the class reads of a pod."""
    return (pod.uid, pod.phase, pod.node, pod.admitted, pod.token, pod.requests, pod.class_label)


def admits_by(reservation: Reservation) -> tuple[object, ...]:
    """What admission and counts read of a reservation."""
    return (
        reservation.uid,
        reservation.phase,
        reservation.granted,
        reservation.claims,
        reservation.wish,
        reservation.fast_path_until,
    )


def lets_go(old: Reservation | None, new: Reservation) -> bool:
    """Claims that stood are not there any more: dropped, or another reservation has come under the name unseen."""
    return old is not None and not old.claims.keys() <= new.claims.keys()
