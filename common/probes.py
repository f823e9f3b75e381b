"""/livez, /readyz and /metrics on a plain port: the same in both processes."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from http import HTTPStatus

import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from common.supervise import Health

_STOP_WITHIN_S = 1


def probes(health: Health) -> Starlette:
    """Liveness asks "am I running", readiness "do I have what I need"; a problem is told by the name of its check."""

    async def livez(_request: Request) -> Response:
        return _answer(health.live())

    async def readyz(_request: Request) -> Response:
        return _answer(health.ready())

    async def metrics(_request: Request) -> Response:
        # In a thread: rendering takes milliseconds, and more urgent work waits on this loop.
        return Response(await asyncio.to_thread(generate_latest), media_type=CONTENT_TYPE_LATEST)

    return Starlette(routes=[Route("/livez", livez), Route("/readyz", readyz), Route("/metrics", metrics)])


async def serve_probes(health: Health, host: str, port: int) -> None:
    """Runs until cancelled."""
    config = uvicorn.Config(
        probes(health),
        host=host or None,  # type: ignore[arg-type]  # None is asyncio's word for all addresses of both families
        port=port,
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_STOP_WITHIN_S,
    )
    await _Server(config).serve()


class _Server(uvicorn.Server):
    """Leaves signals to the supervisor."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def _answer(problems: dict[str, str]) -> Response:
    if not problems:
        return PlainTextResponse("ok\n")
    lines = "".join(f"{name}: {problem}\n" for name, problem in sorted(problems.items()))
    return PlainTextResponse(lines, HTTPStatus.SERVICE_UNAVAILABLE)
