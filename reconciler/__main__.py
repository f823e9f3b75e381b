"""The reconciler process: settings, parts, and an orderly way in and out."""

import argparse
import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from secrets import token_hex

import structlog

from certs.run import Rotation
from common import config
from common.adapters import logs, metrics
from common.adapters.clock import ServerClock, monotonic
from common.adapters.clock_probe import keep_clock, learn_time
from common.adapters.events import EventRecorder, Pace
from common.adapters.kube import connect
from common.config import BadSettings, ReconcilerSettings
from common.domain.errors import ApiError
from common.probes import serve_probes
from common.supervise import Supervisor, exit_code
from reconciler import report
from reconciler.election import Timing
from reconciler.engine import Engine
from reconciler.leader import Leadership
from reconciler.terms import Terms

log = structlog.get_logger(__name__)

STOP_LEADING_S = 3.0


async def run(settings: ReconcilerSettings) -> int:
    """Until a signal, or the death of a part."""
    clock = ServerClock()
    supervisor = Supervisor()
    identity = f"{settings.instance}_{token_hex(4)}"
    async with connect(settings, on_date=clock.sample) as kube:
        events = EventRecorder(kube, clock, identity, monotonic, Pace(repeat=settings.event_repeat))
        terms, certificate_terms = Terms(), Terms()
        leadership = Leadership(
            connect=lambda: connect(settings, on_date=clock.sample),
            clock=clock,
            monotonic=monotonic,
            namespace=settings.system_namespace,
            identity=identity,
            timing=_timing(settings),
            on_change=lambda leads: _changed(leads, terms, certificate_terms),
        )
        rotation = Rotation(kube, settings, clock, leads=leadership.leads)
        engine = Engine(
            kube,
            clock=clock,
            monotonic=monotonic,
            leads=leadership.leads,
            stamp=lambda: f"being confirmed by {identity}, term {leadership.term}",
            events=events,
            display=settings.display(),
            event_repeat=settings.event_repeat,
        )
        metrics.LEADER.set_function(lambda: float(leadership.leads()))
        health = supervisor.health
        health.add_ready("caches", lambda: None if engine.synced() else "not every cache has synced yet")
        health.add_ready("clock", lambda: None if clock.uncertainty() < timedelta(seconds=2) else "no time yet")
        supervisor.start("probes", serve_probes(health, settings.listen_host, settings.probe_port))
        supervisor.start("clock", keep_clock(kube, clock))
        supervisor.start("events", events.run())
        supervisor.start("caches", engine.watch())
        supervisor.start("terms", _campaign(engine, leadership, terms, lambda: learn_time(kube, clock)))
        supervisor.start("certificates", certificate_terms.run(rotation.run))
        supervisor.on_stop("lease", lambda: leadership.stop(STOP_LEADING_S), STOP_LEADING_S + 1)
        return await supervisor.run()


def _changed(leads: bool, *terms: Terms) -> None:  # noqa: FBT001 - as Leadership tells it
    for each in terms:
        each.changed(leads)


async def _campaign(
    engine: Engine, leadership: Leadership, terms: Terms, learn: Callable[[], Awaitable[object]]
) -> None:
    """Stand for election once the caches are warm and the time is known, so that a new leader can decide at once."""
    await engine.wait_synced()
    with suppress(ApiError):
        await learn()
    # What the first lists brought stays: a full collection over it would stop the loop for tenths of a second.
    gc.collect()
    gc.freeze()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(leadership.run())
        tasks.create_task(terms.run(engine.lead))


def _timing(settings: ReconcilerSettings) -> Timing:
    return Timing(
        settings.lease_duration.total_seconds(),
        settings.lease_renew.total_seconds(),
        settings.lease_retry.total_seconds(),
    )


def main() -> None:
    """Console script `gpures-reconciler`."""
    parser = argparse.ArgumentParser(prog="gpures-reconciler", description=__doc__)
    parser.add_argument("--report", action="store_true", help=report.HELP)
    arguments = parser.parse_args()
    logs.configure()
    try:
        settings = config.load(ReconcilerSettings)
    except BadSettings as problem:
        sys.exit(str(problem))
    logs.configure(settings.log_level)
    sys.exit(exit_code(lambda: report.run(settings, sys.stdout) if arguments.report else run(settings)))


if __name__ == "__main__":
    main()
