"""`gpures-reconciler --report`: who would be held or refused if every class were enforced everywhere. Reads only.

It lists once what the reconciler watches, with the same account, and needs neither the Lease nor a running product.
"""

from typing import Final, TextIO, TypeVar

import structlog

from common.adapters import kinds
from common.adapters.clock import ServerClock
from common.adapters.clock_probe import learn_time
from common.adapters.kube import Kube, connect
from common.adapters.store import Versioned
from common.adapters.watching import Kind, decode_page
from common.config import ReconcilerSettings
from common.domain import report
from common.domain.errors import GpuresError, MalformedObject

T = TypeVar("T", bound=Versioned)

HELP: Final = "print who would be held or refused if every class were enforced everywhere, and end"
PAGE: Final = 500
TIMEOUT_S: Final = 60.0
NEVER_OURS: Final = ("kube-system", "kube-public", "kube-node-lease")
"""Together with our own: the namespaces that deploy/base/webhooks.yaml leaves out."""

log = structlog.get_logger(__name__)


async def run(settings: ReconcilerSettings, out: TextIO) -> int:
    """Returns the exit code; what cannot be read is said in the log."""
    clock = ServerClock()
    try:
        async with connect(settings, on_date=clock.sample) as kube:
            seen = report.Seen(
                classes=await listed(kube, kinds.CLASSES),
                nodes=await listed(kube, kinds.NODES),
                reservations=await listed(kube, kinds.RESERVATIONS),
                pods=await listed(kube, kinds.PODS),
                left_alone=frozenset({*NEVER_OURS, settings.system_namespace}),
            )
            if not await learn_time(kube, clock):
                log.warning("report.time_unknown", hint="windows are judged by a time that may be wrong")
    except GpuresError as problem:
        log.error("report.failed", why=str(problem))  # noqa: TRY400 - the sentence says it all
        return 1
    lines = report.printed(report.plan(seen, clock.now(), settings.display()))
    out.write("\n".join(lines) + "\n")
    return 0


async def listed(kube: Kube, kind: Kind[T]) -> list[T]:
    """All objects of a kind, page by page; one that cannot be read is said in the log and left out."""
    found: list[T] = []
    query = {"limit": str(PAGE)}
    while True:
        answer = await kube.request("GET", kind.path, query=query, timeout_s=TIMEOUT_S)
        page = decode_page(answer.body)
        for item in page.items or ():
            try:
                found.append(kind.decode(item))
            except MalformedObject as error:
                log.warning("report.unreadable", kind=kind.name, why=str(error))
        if not page.metadata.continue_:
            return found
        query["continue"] = page.metadata.continue_
