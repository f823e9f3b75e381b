"""Looks at the certificates and takes the next step, again and again while this process leads.

Gathers here, decides in `certs.rotation`, acts here. Every write stands on what was read: a second writer, or a leader
that wakes up late, gets a conflict and looks again.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from secrets import SystemRandom
from typing import Final, NoReturn

import structlog

from certs import inject, rotation, store
from certs.facts import CA_CERT, TLS_CERT, TLS_KEY, Authorities, leaf_of, pair_of, signer_of
from certs.inject import Configuration
from certs.issue import Pair, issue_ca, issue_leaf
from certs.registered import Registered
from certs.rotation import Bundle, Inject, IssueCa, IssueLeaf, Remember, Step
from certs.store import Api, Secret
from common.adapters.backoff import Backoff
from common.adapters.clock import monotonic
from common.adapters.metrics import CERTIFICATE_ROUNDS_FAILED, CERTIFICATE_STEPS
from common.config import CertificateSettings
from common.domain.errors import ApiError, Conflict, GpuresError
from common.domain.time import Clock, Instant

SERVICE: Final = "gpures-webhook"
STEPS_AT_ONCE: Final = 12
"""More in a row is a quarrel with another writer: pause before going on."""
_SURE: Final = timedelta(minutes=1)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 60.0
_BOOTSTRAP_PAUSE_S = 1.0
_NAMES: Final[dict[type[Step], str]] = {
    IssueCa: "issue_ca",
    Remember: "remember",
    Inject: "inject",
    IssueLeaf: "issue_leaf",
}

log = structlog.get_logger(__name__)
_jitter = SystemRandom().random


class NotNow(GpuresError):
    """Nothing may be decided or written at this moment; it will pass."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What one look found."""

    ca: Secret
    tls: Secret
    configurations: Sequence[Configuration]
    authorities: Authorities
    bundle: Bundle


class Rotation:
    """One for a process; `run` for each term, or `bootstrap` once."""

    def __init__(
        self,
        api: Api,
        settings: CertificateSettings,
        clock: Clock,
        *,
        leads: Callable[[], bool] = lambda: True,
        read: Callable[[], float] = monotonic,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self._api = api
        self._settings = settings
        self._clock = clock
        self._leads = leads
        self._sleep = sleep
        self._registered = Registered()
        self._injected, self._leaf = _Since(read), _Since(read)
        self._rules = rotation.Settings(
            f"{SERVICE}.{settings.system_namespace}.svc", settings.cert_propagation, settings.cert_overlap
        )

    async def run(self) -> NoReturn:
        """Until cancelled; nothing ends it, for the reconciler has other work that must not end with it."""
        ours = self._settings.certs == "selfManaged"
        if not ours:
            log.info("certificates.left_to_others", mode=self._settings.certs)
        self._injected.forget()
        self._leaf.forget()
        try:
            await self._rounds(self.settle if ours else self.watch_over)
        finally:
            self._registered.forget()

    async def _rounds(self, look: Callable[[], Awaitable[Instant]]) -> NoReturn:
        backoff = Backoff(_FIRST_PAUSE_S, _LONGEST_PAUSE_S)
        while True:
            try:
                again = await look()
            except GpuresError as error:
                CERTIFICATE_ROUNDS_FAILED.inc()
                log.warning("certificates.round_failed", error=type(error).__name__, message=str(error))
                await self._sleep(backoff.pause())
            except Exception:
                CERTIFICATE_ROUNDS_FAILED.inc()
                log.exception("certificates.round_failed")
                await self._sleep(backoff.pause())
            else:
                backoff.reset()
                await self._sleep(self._pause(again))

    async def bootstrap(self) -> None:
        """Return once what is stored can be served. Does what is missing for that and leaves the rest to the leader."""
        backoff = Backoff(_FIRST_PAUSE_S, _BOOTSTRAP_PAUSE_S)
        while True:
            try:
                if await self._bootstrapped():
                    return
            except GpuresError as error:
                log.warning("certificates.bootstrap_failed", error=type(error).__name__, message=str(error))
                await self._sleep(backoff.pause())

    async def settle(self) -> Instant:
        """Take steps until none is left for now; returns when to look again. Raises GpuresError."""
        for _ in range(STEPS_AT_ONCE):
            seen = await self._look()
            self._registered.tell(seen.configurations)
            todo = rotation.plan(seen.bundle, self._clock.now(), self._rules)
            if not todo.steps:
                return todo.again
            await self._take(todo.steps, seen)
        return self._clock.now()

    async def watch_over(self) -> Instant:
        """Where others make the certificates: see whether webhooks are registered. Raises ApiError."""
        self._registered.tell(await inject.read(self._api))
        return self._clock.now() + self._settings.cert_check

    async def _bootstrapped(self) -> bool:
        seen = await self._look()
        now = self._clock.now()
        if rotation.serves(seen.bundle, now, self._rules):
            return True
        todo = rotation.plan(seen.bundle, now, self._rules)
        await self._take(todo.steps, seen)
        if not todo.steps:
            await self._sleep(min(max((todo.again - now).total_seconds(), 0.0), _BOOTSTRAP_PAUSE_S))
        return False

    async def _look(self) -> Seen:
        settings = self._settings
        ca, tls, configurations = await asyncio.gather(
            store.read(self._api, settings.system_namespace, settings.cert_ca_secret),
            store.read(self._api, settings.system_namespace, settings.cert_secret),
            inject.read(self._api),
        )
        if self._clock.uncertainty() > _SURE:
            message = "the API server's clock is not known yet"
            raise NotNow(message)
        authorities = Authorities()
        signer = signer_of(pair_of(ca.data), authorities)
        remembered = authorities.of(tls.data.get(CA_CERT, b"")) if tls.exists else None
        injected = tuple(authorities.of(bundle) for found in configurations for bundle in found.bundles)
        bundle = Bundle(
            ca=signer,
            leaf=leaf_of(pair_of(tls.data), authorities),
            remembered=remembered,
            injected=injected,
            injected_for=self._injected.since([(found.spec, found.bundles) for found in configurations]),
            leaf_for=self._leaf.since(hashlib.sha256(tls.data.get(TLS_CERT, b"")).digest()),
        )
        return Seen(ca, tls, configurations, authorities, bundle)

    async def _take(self, steps: Sequence[Step], seen: Seen) -> None:
        """One after the other; at a conflict the rest is dropped, for it was decided on what is no longer so."""
        for step in steps:
            if not self._leads():
                message = "this process does not lead any more"
                raise NotNow(message)
            name = _NAMES[type(step)]
            try:
                await self._act(step, seen)
            except Conflict as conflict:
                CERTIFICATE_STEPS.labels(name, "conflict").inc()
                log.info("certificates.conflict", step=name, message=conflict.message)
                return
            except ApiError:
                CERTIFICATE_STEPS.labels(name, "failed").inc()
                raise
            CERTIFICATE_STEPS.labels(name, "done").inc()
            log.info("certificates.step", step=name, why=getattr(step, "why", ""), cas=_short(step))

    async def _act(self, step: Step, seen: Seen) -> None:
        now = self._clock.now()
        match step:
            case IssueCa():
                ca = issue_ca(f"{SERVICE} CA {now:%Y-%m-%d %H:%M:%S}", now, self._settings.cert_ca_life)
                await store.write(self._api, seen.ca, _tls(ca))
            case Remember(cas):
                await store.write(self._api, seen.tls, {CA_CERT: seen.authorities.pem(cas)})
            case Inject(cas):
                await self._inject(seen, seen.authorities.pem(cas))
            case IssueLeaf(cas):
                leaf = issue_leaf(pair_of(seen.ca.data), (self._rules.name,), now, self._settings.cert_life)
                await store.write(self._api, seen.tls, {**_tls(leaf), CA_CERT: seen.authorities.pem(cas)})

    async def _inject(self, seen: Seen, bundle: bytes) -> None:
        for configuration in seen.configurations:
            if any(present != bundle for present in configuration.bundles):
                await inject.inject(self._api, configuration, bundle)

    def _pause(self, again: Instant) -> float:
        """Others may wipe a bundle at any time, so it is never longer than a look's pause."""
        left = max((again - self._clock.now()).total_seconds(), 0.0)
        return min(left, self._settings.cert_check.total_seconds()) * (1 + _jitter() / 4)


class _Since:
    """For how long a value has been the same."""

    def __init__(self, read: Callable[[], float]) -> None:
        self._read = read
        self.forget()

    def forget(self) -> None:
        self._value: object = self
        self._at = 0.0

    def since(self, value: object) -> timedelta:
        if value != self._value:
            self._value, self._at = value, self._read()
        return timedelta(seconds=self._read() - self._at)


def _tls(pair: Pair) -> dict[str, bytes]:
    return {TLS_CERT: pair.cert, TLS_KEY: pair.key}


def _short(step: Step) -> list[str]:
    return [] if isinstance(step, IssueCa) else [ca.id[:8] for ca in step.cas]
