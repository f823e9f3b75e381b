"""The webhook process: settings, parts, and an orderly way in and out."""

import asyncio
import gc
import sys
from contextlib import suppress
from typing import Final

import structlog

from certs.files import BadPair, Files, Served, keep_renewed
from common import config
from common.adapters import kinds, logs, metrics
from common.adapters.clock import ServerClock, monotonic
from common.adapters.clock_probe import keep_clock, once_known
from common.adapters.history import History
from common.adapters.kube import Kube, connect
from common.adapters.reflector import Reflector
from common.adapters.wire import decode_reservation, quantity
from common.config import BadSettings, WebhookSettings
from common.probes import serve_probes
from common.supervise import Supervisor, exit_code
from webhook.app import App, Parts, create_app
from webhook.breaker import Breaker
from webhook.claims import Committer, Pace
from webhook.claims_api import KubeClaims
from webhook.grant import GrantSettings
from webhook.index import Index, LiveReservations
from webhook.observing import Told
from webhook.server import STOP_WITHIN_S, ReviewServer

_LOOK_S: Final = 60.0

log = structlog.get_logger(__name__)


class Replica:
    """The parts of one process, joined."""

    def __init__(self, settings: WebhookSettings, kube: Kube, clock: ServerClock, supervisor: Supervisor) -> None:
        index = Index()
        history = History()
        self.classes = Reflector(kube, kinds.CLASSES, index.class_changed, history=history)
        self.reservations = Reflector(kube, kinds.RESERVATIONS, index.reservation_changed, history=history)
        breaker = Breaker(monotonic)
        view = LiveReservations(index, decode_reservation, self.reservations.apply)
        self.committer = Committer(KubeClaims(kube), view, breaker, monotonic, Pace())
        metrics.BREAKER_OPEN.set_function(lambda: float(breaker.open))
        self.app: App = create_app(
            Parts(
                index=index,
                committer=self.committer,
                clock=clock,
                classes_synced=lambda: self.classes.synced,
                synced=self.synced,
                health=supervisor.health,
                observer=Told(),
                leaving=lambda: supervisor.stopping,
                display=settings.display(),
                grant=GrantSettings(claim_within_s=settings.claim_deadline.total_seconds()),
                at_once=settings.reviews_at_once,
            )
        )

    def synced(self) -> bool:
        return self.classes.synced and self.reservations.synced

    async def settle(self) -> None:
        """After the first lists: what lives as long as the process need not be looked at by the collector again."""
        for cache in (self.classes, self.reservations):
            while not cache.synced:
                with suppress(TimeoutError):
                    await cache.wait_synced(_LOOK_S)
        gc.collect()
        gc.freeze()
        log.info("webhook.synced", classes=len(self.classes), reservations=len(self.reservations))
        await asyncio.Event().wait()  # a task that ends counts as dead


async def run(settings: WebhookSettings) -> int:
    """Until a signal, or the death of a part."""
    served = Served(Files(settings.cert_file, settings.key_file))
    # The first quantity with a suffix imports the client's parser, half a second in which no review would be answered.
    quantity("1Gi")
    clock = ServerClock()
    supervisor = Supervisor()
    async with connect(settings, on_date=clock.sample) as kube:
        replica = Replica(settings, kube, clock, supervisor)
        server = ReviewServer(replica.app, served.context, settings.listen_host, settings.listen_port)
        poll_s = settings.cert_poll.total_seconds()
        health = supervisor.health
        health.add_ready("caches", lambda: None if replica.synced() else "not every cache has synced yet")
        health.add_ready("time", once_known(clock))
        health.add_ready("certificate", lambda: _ending(served, clock))
        metrics.CERTIFICATE_DAYS_LEFT.labels("serving").set_function(lambda: served.checked.days_left(clock.now()))
        supervisor.start("probes", serve_probes(health, settings.listen_host, settings.probe_port))
        supervisor.start("clock", keep_clock(kube, clock))
        supervisor.start("classes", replica.classes.run())
        supervisor.start("reservations", replica.reservations.run())
        supervisor.start("settle", replica.settle())
        supervisor.start(
            "certificate",
            keep_renewed(served, lambda problem: _told(problem, served, clock), lambda: asyncio.sleep(poll_s)),
        )
        supervisor.start("server", server.serve())
        log.info("webhook.starting", port=settings.listen_port, probes=settings.probe_port)
        # Endpoints lose us some seconds after readiness does: until then reviews go on coming.
        drain_s = settings.drain.total_seconds()
        supervisor.on_stop("drain", lambda: asyncio.sleep(drain_s), drain_s + 1)
        supervisor.on_stop("server", server.stop, STOP_WITHIN_S + 2)
        supervisor.on_stop("claims", replica.committer.aclose, 1)
        return await supervisor.run()


def _ending(served: Served, clock: ServerClock) -> str | None:
    """Long before this an alarm has told that nobody renews it."""
    end = served.checked.valid.end
    return f"the serving certificate ends at {end:%Y-%m-%d %H:%M} UTC" if served.checked.ending(clock.now()) else None


def _told(problem: BadPair | None, served: Served, clock: ServerClock) -> None:
    days_left = round(served.checked.days_left(clock.now()), 1)
    if problem is None:
        log.info("certificate.renewed", days_left=days_left)
    else:
        log.error("certificate.not_renewed", why=str(problem), days_left=days_left, hint="the old one is served on")


def main() -> None:
    """Console script `gpures-webhook`."""
    logs.configure()
    try:
        settings = config.load(WebhookSettings)
        logs.configure(settings.log_level)
        sys.exit(exit_code(lambda: run(settings)))
    except (BadSettings, BadPair) as problem:
        sys.exit(str(problem))


if __name__ == "__main__":
    main()
