"""uvicorn behind TLS, set up for a client that keeps connections open and never repeats a request that was cut."""

import asyncio
import ssl
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

KEEP_ALIVE_S: Final = 125
"""The API server drops idle connections after 90 s: if we do so first, a create runs into the closing one and fails."""
STOP_WITHIN_S: Final = 10
"""For answers under way; below the pod's grace period."""


class ReviewServer:
    """`serve` runs until `stop`; signals are the supervisor's."""

    def __init__(self, app: ASGIApp, context: ssl.SSLContext, host: str, port: int) -> None:
        config = uvicorn.Config(
            app,
            host=host or None,  # type: ignore[arg-type]  # None is asyncio's word for all addresses of both families
            port=port,
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            ws="none",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=STOP_WITHIN_S,
            ssl_context_factory=lambda _config, _default: context,
        )
        self._server = _Server(config)
        self._ended = asyncio.Event()

    @property
    def started(self) -> bool:
        return self._server.started

    @property
    def port(self) -> int:
        """The one that it listens on, also where any free one was asked for."""
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    async def serve(self) -> None:
        try:
            await self._server.serve()
        finally:
            self._ended.set()

    async def stop(self) -> None:
        """Accept nothing more, finish what is under way, close idle connections."""
        self._server.should_exit = True
        await self._ended.wait()


class _Server(uvicorn.Server):
    """Leaves signals to the supervisor."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield
