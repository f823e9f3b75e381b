"""Claims that no pod stands behind (R7), and claims whose pod can no longer use them."""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import timedelta

from common.domain import keys, tokens
from common.domain.pod import PodView
from common.domain.reservation import OPENABLE, Reservation, Token
from common.domain.time import Instant

CREATE_BOUND = timedelta(seconds=60)
"""The API server ends every create 34 s after it began (tried); a claim this old belongs to no create under way."""


@dataclass(frozen=True, slots=True)
class Release:
    """Drop claims whose pod was seen stored and is finished, gone, or let in under another reservation.

    None of these is ever undone, so no list is needed.
    """

    reservation: Reservation
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Drop claims older than `CREATE_BOUND` if a quorum list begun after this shows no live pod with them."""

    reservation: Reservation
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """Write the waiting pod first (so that a late opening patch misses its resourceVersion), then drop its claim."""

    reservation: Reservation
    pod: PodView
    token: Token


@dataclass(frozen=True, slots=True)
class Findings:
    release: Release | None
    suspicion: Suspicion | None
    withdrawals: tuple[Withdrawal, ...]
    next: Instant | None


def plan(
    reservation: Reservation, namespace_pods: Iterable[PodView], finished: Container[str], now: Instant
) -> Findings:
    """`finished` are tokens and uids of pods that were seen and are over; `namespace_pods` is the informer's view."""
    standing = [pod for pod in namespace_pods if pod.live]
    by_token = {pod.token: pod for pod in standing if pod.token}
    by_uid = {pod.uid: pod for pod in standing}
    release: list[Token] = []
    suspects: list[Token] = []
    withdrawals: list[Withdrawal] = []
    looks: list[Instant] = []
    for token in reservation.claims:
        pod = by_token.get(token) or holder_by_uid(token, by_uid)
        if pod is not None and _let_in_elsewhere(pod, reservation):
            release.append(token)
            continue
        if pod is not None:
            if reservation.phase not in OPENABLE and not pod.admitted and not pod.node:
                withdrawals.append(Withdrawal(reservation, pod, token))
            continue
        parts = tokens.parse(token)
        if token in finished or (parts is not None and parts.rest in finished):
            release.append(token)
        elif parts is None or now >= parts.minted + CREATE_BOUND:
            suspects.append(token)
        else:
            looks.append(parts.minted + CREATE_BOUND)
    return Findings(
        Release(reservation, tuple(release)) if release else None,
        Suspicion(reservation, tuple(suspects)) if suspects else None,
        tuple(withdrawals),
        min(looks, default=None),
    )


def _let_in_elsewhere(pod: PodView, reservation: Reservation) -> bool:
    """A claim that landed late, after the pod had been asked for and let in with the same token somewhere else."""
    return pod.admitted and pod.annotations.get(keys.BOOKING_REFERENCE, reservation.name) != reservation.name


def holder_by_uid(token: Token, by_uid: dict[str, PodView]) -> PodView | None:
    """The pod that a reconciler's token was derived from, whether or not the opening patch has written it yet."""
    parts = tokens.parse(token)
    return by_uid.get(parts.rest) if parts else None


def still_orphaned(suspects: Iterable[Token], listed: Iterable[PodView]) -> tuple[Token, ...]:
    """What a fresh quorum list leaves of a suspicion."""
    live = [pod for pod in listed if pod.live]
    carried = {pod.token for pod in live}
    uids = {pod.uid: pod for pod in live}
    return tuple(token for token in suspects if token not in carried and holder_by_uid(token, uids) is None)
