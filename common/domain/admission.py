"""Which of a namespace's waiting pods get in now, and what the others wait for.

Pods go in stable order of creation; each one that gets in uses up room for those behind it.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from common.domain import keys, placement, routing, texts, tokens, units
from common.domain.gpu_class import GpuClass, Mode
from common.domain.pod import PodView
from common.domain.reasons import Hold, Reason
from common.domain.reservation import TERMINAL, Granted, Reservation, Token
from common.domain.time import Instant

_SURGING = ("Deployment/", "DaemonSet/")
"""Controllers that start a pod beside the one it replaces; the pods of a Job or a StatefulSet only wait in line."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Claim `units` under `token` (unless `claimed`: it stands already), then open the pod in one patch.

    Precondition: the pod's resourceVersion, and the reservation's uid for the claim.
    """

    pod: PodView
    reservation: Reservation
    granted: Granted
    token: Token
    units: int
    claimed: bool


@dataclass(frozen=True, slots=True)
class Tell:
    """The pod waits for `hold`; the shell writes it where it is not written yet."""

    pod: PodView
    hold: Hold


@dataclass(frozen=True, slots=True)
class LetGo:
    """Take our gate out and nothing else: the class no longer holds such pods (R6, nothing is stranded)."""

    pod: PodView


@dataclass(frozen=True, slots=True)
class Slice:
    """One namespace's part of one class; `free` are the units that the class's nodes can still run."""

    gpu_class: GpuClass
    reservations: Sequence[Reservation]
    """Every reservation of the namespace, also of other classes (for the sentence about near misses)."""
    waiting: Sequence[PodView]
    free: int | None
    rooms: Sequence[placement.NodeRoom]
    """Free units node by node; used up on paper by the pods of this pass, by the scheduler in truth."""
    copied: Container[Token] = ()
    """Tokens that more than one live pod of the namespace carries."""
    siblings: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Reservation name to the owners of the pods that hold its units; for HeldByOwnSibling."""


def waits(pod: PodView) -> bool:
    """A pod that we may still let in: alive, nowhere yet, and without our toleration or behind our gate."""
    return pod.live and not pod.deleting and not pod.node and not pod.mirror and not pod.admitted


def ask_of(pod: PodView, gpu_class: GpuClass) -> routing.Ask:
    return routing.Ask(
        namespace=pod.namespace,
        class_label=gpu_class.label,
        units=units.pod_units(pod.requests, gpu_class.unit),
        labels=pod.labels,
        use_reservation=pod.annotations.get(keys.USE_RESERVATION, ""),
        foreign_gates=pod.foreign_gates,
    )


def plan(slice_: Slice, now: Instant, display: texts.Display) -> list[Admit | Tell | LetGo]:
    """At most one entry a waiting pod, in the order in which they are to be carried out."""
    namespace = slice_.waiting[0].namespace if slice_.waiting else ""
    if slice_.gpu_class.mode_in(namespace) is not Mode.ENFORCE:
        return let_go(slice_.waiting)
    holds = routing.held_in(slice_.gpu_class, namespace)
    named = {pod.annotations.get(keys.USE_RESERVATION) for pod in slice_.waiting}
    reservations = {r.name: r for r in slice_.reservations if r.phase not in TERMINAL or r.name in named}
    selected = sorted({key for r in reservations.values() for key in r.wish.pods})
    held: dict[tuple[object, ...], Hold] = {}
    """What equal asks heard since somebody was let in."""
    free = slice_.free
    rooms = None if free is None else list(slice_.rooms)
    actions: list[Admit | Tell | LetGo] = []
    for pod in sorted(slice_.waiting, key=lambda p: (p.created, p.name)):
        ask = ask_of(pod, slice_.gpu_class)
        if ask.units < 1:
            actions += let_go([pod])
            continue
        standing = standing_claim(pod, ask, reservations.values(), now, slice_.copied)
        if standing is not None and not ask.foreign_gates:
            actions.append(standing)
            rooms = _after(rooms, pod, ask.units)
            continue
        alike = (
            ask.units,
            ask.use_reservation,
            ask.foreign_gates,
            tuple(ask.labels.get(key) for key in selected),
        )
        route = held.get(alike) or routing.route(ask, slice_.gpu_class, list(reservations.values()), now, free, display)
        if isinstance(route, Hold):
            held[alike] = route
        if isinstance(route, routing.Open) and rooms is not None:
            obstacle = placement.obstacle(pod.placement, ask.units, rooms, ask.class_label)
            route = replace(obstacle, reservation=route.reservation.name) if obstacle is not None else route
        if isinstance(route, Hold):
            actions += [Tell(pod, _sibling(route, pod, slice_.siblings))] if holds else let_go([pod])
            continue
        held.clear()
        token = claim_token(pod, ask.units, slice_.copied)
        actions.append(Admit(pod, route.reservation, route.granted, token, ask.units, claimed=False))
        taken = {**route.reservation.claims, token: ask.units}
        reservations[route.reservation.name] = replace(route.reservation, claims=taken)
        if free is not None:
            free -= ask.units
        rooms = _after(rooms, pod, ask.units)
    return actions


def let_go(pods: Iterable[PodView]) -> list[Admit | Tell | LetGo]:
    return [LetGo(pod) for pod in pods if pod.gated]


def claim_token(pod: PodView, units_: int, copied: Container[Token] = ()) -> Token:
    """A claim whose outcome nobody knows is asked for again with the same token, so that it never stands twice (R1)."""
    if pod.token and pod.token not in copied:
        late = tokens.parse(pod.token)
        if late is not None and late.units == units_:
            return pod.token
    return tokens.for_pod(pod, units_)


def standing_claim(
    pod: PodView,
    ask: routing.Ask,
    reservations: Iterable[Reservation],
    now: Instant,
    copied: Container[Token] = (),
) -> Admit | None:
    """The claim that this pod has already in an open reservation (a late answer at CREATE, or a leader that fell).

    A token that several pods carry was copied: it opens none of them.
    """
    own = [tokens.for_pod(pod, ask.units), *([pod.token] if pod.token and pod.token not in copied else [])]
    for reservation in reservations:
        if reservation.granted is None or not reservation.granted.window.contains(now) or reservation.wish.cancel:
            continue
        for token in own:
            if reservation.claims.get(token) == ask.units:
                return Admit(pod, reservation, reservation.granted, token, ask.units, claimed=True)
    return None


def _sibling(hold: Hold, pod: PodView, siblings: Mapping[str, frozenset[str]]) -> Hold:
    """A rolling update waits for the pods that it replaces: its owner must hear that, not "full"."""
    owners = siblings.get(hold.reservation or "", frozenset())
    surges = pod.owner.startswith(_SURGING)
    if hold.reason is not Reason.RESERVATION_FULL or not surges or owners != {pod.owner}:
        return hold
    sentence = (
        f"{hold.reservation} is used by pods of the same {pod.owner}; a rolling update must "
        "let the old ones go first (maxSurge 0 or strategy Recreate), otherwise book more units"
    )
    return replace(hold, reason=Reason.HELD_BY_OWN_SIBLING, sentence=sentence)


def _after(rooms: list[placement.NodeRoom] | None, pod: PodView, asked: int) -> list[placement.NodeRoom] | None:
    """Take the units from the fullest node that can take them, so that big blocks stay for big pods."""
    if rooms is None:
        return None
    able = [room for room in rooms if room.free >= asked and placement.allows(pod.placement, room.node)]
    if not able:
        return rooms
    chosen = min(able, key=lambda room: (room.free, room.node.name))
    return [replace(room, free=room.free - asked) if room is chosen else room for room in rooms]
