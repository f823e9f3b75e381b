"""Takes us out of a cluster so that nobody's pod stays behind (R6): `python -m reconciler.uninstall resource/name …`.

The hold policy goes first and the webhooks second, for both add gates; then the reconciler, which tells pods why they
wait. Then gates are opened until two quorum lists some seconds apart show none: what was in flight when hold and
webhooks went is stored by then. The fence goes last: until then it keeps tenants from opening gates by themselves.
Every step may be taken again.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, TypeVar

import msgspec
import structlog

from common import config
from common.adapters import logs, paths
from common.adapters.clock import monotonic
from common.adapters.kube import JSON_PATCH, STRATEGIC_MERGE, Kube, connect
from common.adapters.watching import decode_page
from common.config import BadSettings, CommonSettings
from common.domain.errors import ApiError, Conflict, GpuresError, NotFound, OutcomeUnknown, Refused, Throttled
from common.supervise import exit_code
from reconciler.uninstall_plan import (
    CannotUninstall,
    Delete,
    OpenGates,
    Pod,
    Quiet,
    Step,
    Stop,
    Target,
    opening,
    parse,
    plan,
    untold,
)

T = TypeVar("T")

TIMEOUT_S: Final = 30.0
PAGE: Final = 500
IN_FLIGHT: Final = 16
LOOK_S: Final = 0.5
BREAK_GLASS: Final = "docs/how-to/uninstall.md has a command that takes hold and fence off at once"
_FOREGROUND: Final = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Foreground"}

log = structlog.get_logger(__name__)
_pod = msgspec.json.Decoder(Pod)


@dataclass(slots=True)
class Uninstaller:
    kube: Kube
    namespace: str
    quiet_s: float
    deadline: float
    monotonic: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]]
    opened: int = 0
    _slots: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(IN_FLIGHT))

    async def run(self, steps: Sequence[Step]) -> None:
        """Raises CannotUninstall when it is refused, or not done by the deadline."""
        for step in steps:
            match step:
                case Delete(targets):
                    for target in targets:
                        await self._delete(target)
                case Stop(targets):
                    for target in targets:
                        await self._delete(target)
                        await self._gone(target)
                case OpenGates():
                    await self._open_all()

    async def _delete(self, target: Target) -> None:
        path = self._path(target)
        try:
            await self._insist(partial(self.kube.request, "DELETE", path, body=_FOREGROUND, timeout_s=TIMEOUT_S))
        except NotFound:
            log.info("uninstall.not_there", resource=target.resource, name=target.name)
        except Refused as refusal:
            message = f"{target.resource}/{target.name} cannot be deleted: {refusal}. {BREAK_GLASS}"
            raise CannotUninstall(message) from refusal
        else:
            log.info("uninstall.deleted", resource=target.resource, name=target.name)

    async def _gone(self, target: Target) -> None:
        """In the foreground an object goes after everything that it owns."""
        while True:
            try:
                await self._insist(partial(self.kube.request, "GET", self._path(target), timeout_s=TIMEOUT_S))
            except NotFound:
                return
            self._check_time(f"{target.resource}/{target.name} is still there")
            await self.sleep(LOOK_S)

    def _path(self, target: Target) -> str:
        if target.resource == "deployments":
            return f"/apis/apps/v1/namespaces/{self.namespace}/deployments/{target.name}"
        return f"/apis/admissionregistration.k8s.io/v1/{target.resource}/{target.name}"

    async def _open_all(self) -> None:
        quiet = Quiet(self.quiet_s)
        while True:
            listed_at = self.monotonic()
            stranded = await self._stranded()
            if quiet.after(len(stranded), listed_at):
                log.info("uninstall.no_gate_left", opened=self.opened)
                return
            refusals = [refusal for refusal in await asyncio.gather(*map(self._open, stranded)) if refusal is not None]
            self._check_time(
                f"{len(stranded)} pods are behind our gate; {refusals[0] if refusals else 'more kept coming'}"
            )
            if refusals or not stranded:
                await self.sleep(min(1.0, self.quiet_s))

    async def _stranded(self) -> list[Pod]:
        """A quorum list of the pods that no node has, in pages."""
        found: list[Pod] = []
        token = ""
        while True:
            query = {"fieldSelector": "spec.nodeName=", "limit": str(PAGE), **({"continue": token} if token else {})}
            answer = await self._insist(
                partial(self.kube.request, "GET", paths.pods(), query=query, timeout_s=TIMEOUT_S)
            )
            page = decode_page(answer.body)
            found += [pod for pod in map(_pod.decode, page.items or ()) if pod.stranded]
            token = page.metadata.continue_
            if not token:
                return found

    async def _open(self, pod: Pod) -> str | None:
        """None, or why not; who changed meanwhile is met again in the next list."""
        path = paths.pods(pod.metadata.namespace, pod.metadata.name)
        async with self._slots:
            try:
                await self.kube.request("PATCH", path, body=opening(pod), content_type=JSON_PATCH, timeout_s=TIMEOUT_S)
                self.opened += 1
                if pod.told:
                    await self.kube.request(
                        "PATCH", f"{path}/status", body=untold(pod), content_type=STRATEGIC_MERGE, timeout_s=TIMEOUT_S
                    )
            except (Conflict, NotFound):
                return None
            except ApiError as error:
                why = f"{pod.metadata.namespace}/{pod.metadata.name}: {error}"
                log.warning("uninstall.not_opened", why=why)
                return why
        return None

    async def _insist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Ask again for as long as it is not known whether it happened."""
        while True:
            try:
                return await call()
            except (OutcomeUnknown, Throttled) as error:
                log.warning("uninstall.again", why=str(error))
                self._check_time(str(error))
                await self.sleep(1.0)

    def _check_time(self, problem: str) -> None:
        if self.monotonic() > self.deadline:
            message = f"not done in time: {problem}. {BREAK_GLASS}"
            raise CannotUninstall(message)


async def run(settings: CommonSettings, arguments: argparse.Namespace) -> int:
    """Returns the exit code; what is wrong is said in the log."""
    try:
        steps = plan(parse(arguments.targets))
        async with connect(settings) as kube:
            deadline = monotonic() + arguments.timeout_seconds
            await Uninstaller(
                kube, settings.system_namespace, arguments.quiet_seconds, deadline, monotonic, asyncio.sleep
            ).run(steps)
    except GpuresError as problem:
        log.error("uninstall.failed", why=str(problem))  # noqa: TRY400 - the sentence says it all
        return 1
    return 0


def main() -> None:
    """`python -m reconciler.uninstall`."""
    parser = argparse.ArgumentParser(prog="python -m reconciler.uninstall", description=__doc__)
    parser.add_argument(
        "targets", nargs="+", metavar="resource/name", help="policies, bindings, webhook configurations"
    )
    parser.add_argument("--quiet-seconds", type=float, default=5.0, help="how far apart the two empty lists are")
    parser.add_argument("--timeout-seconds", type=float, default=600.0, help="give up after that")
    arguments = parser.parse_args()
    logs.configure()
    try:
        settings = config.load(CommonSettings)
    except BadSettings as problem:
        sys.exit(str(problem))
    logs.configure(settings.log_level)
    sys.exit(exit_code(lambda: run(settings, arguments)))


if __name__ == "__main__":
    main()
