"""One-shot for installers: makes what is missing, so that the webhook can start before any reconciler leads."""

import asyncio
import sys

import structlog

from certs.run import Rotation
from common import config
from common.adapters import logs
from common.adapters.clock import ServerClock
from common.adapters.kube import connect
from common.config import BadSettings, CertificateSettings
from common.supervise import exit_code

BEYOND_PROPAGATION_S = 60.0

log = structlog.get_logger(__name__)


async def run(settings: CertificateSettings) -> int:
    """0 when there is a certificate that can be served, and it verifies against what is injected."""
    if settings.certs != "selfManaged":
        log.info("certificates.left_to_others", mode=settings.certs)
        return 0
    clock = ServerClock()
    patience_s = settings.cert_propagation.total_seconds() + BEYOND_PROPAGATION_S
    async with connect(settings, on_date=clock.sample) as kube:
        try:
            async with asyncio.timeout(patience_s):
                await Rotation(kube, settings, clock).bootstrap()
        except TimeoutError:
            log.error("certificates.not_in_time", waited_s=patience_s)  # noqa: TRY400 - the trace says nothing
            return 1
    log.info("certificates.there")
    return 0


def main() -> None:
    """`python -m certs`."""
    logs.configure()
    try:
        settings = config.load(CertificateSettings)
    except BadSettings as problem:
        sys.exit(str(problem))
    logs.configure(settings.log_level)
    sys.exit(exit_code(lambda: run(settings)))


if __name__ == "__main__":
    main()
