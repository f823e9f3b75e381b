"""A TCP splitter that stands for the Service in front of several replicas: there is no kube-proxy here."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from tests.controlplane.loop_thread import LoopThread

CONNECT_DEADLINE_S = 1.0
CHUNK = 65_536


@dataclass(frozen=True, order=True)
class BackEnd:
    """Where one replica listens."""

    host: str
    port: int


@dataclass
class _Lane:
    served: int = 0
    open: set[asyncio.StreamWriter] = field(default_factory=set)


class Splitter:
    """Gives each new connection to the next back end that accepts it; back ends come and go while it runs."""

    def __init__(self, *back_ends: BackEnd, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen on an address of our choice; port 0 takes a free one."""
        self.host = host
        self.port = port
        self._lanes: dict[BackEnd, _Lane] = {back_end: _Lane() for back_end in back_ends}
        self._order = list(back_ends)
        self._guard = threading.Lock()
        self._thread: LoopThread | None = None
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        """Start listening."""
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop listening and cut what is open."""
        self.stop()

    def start(self) -> Self:
        """Start listening."""
        self._thread = LoopThread("splitter")
        self._thread.run(self._listen())
        return self

    def stop(self) -> None:
        """Stop listening and cut what is open."""
        if self._thread is not None:
            self._thread.run(self._close())
            self._thread.stop()
            self._thread = None

    def add(self, back_end: BackEnd) -> None:
        """Send new connections there too."""
        with self._guard:
            if back_end not in self._order:
                self._lanes[back_end] = _Lane()
                self._order.append(back_end)

    def remove(self, back_end: BackEnd, *, cut: bool = False) -> None:
        """Send no new connection there; cut=True ends those that are open."""
        with self._guard:
            self._order.remove(back_end)
            lane = self._lanes.pop(back_end)
        if cut and self._thread is not None:
            self._thread.post(lambda: _abort(lane))

    def cut(self) -> None:
        """End every open connection, so that clients connect anew."""
        if self._thread is not None:
            self._thread.post(self._abort_all)

    @property
    def served(self) -> dict[BackEnd, int]:
        """Return how many connections each back end got."""
        with self._guard:
            return {back_end: lane.served for back_end, lane in self._lanes.items()}

    def _abort_all(self) -> None:
        with self._guard:
            lanes = list(self._lanes.values())
        for lane in lanes:
            _abort(lane)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
        self._abort_all()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            found = await self._connect()
            if found is None:
                # As a Service without endpoints: the connection is refused, late.
                writer.transport.abort()
                return
            lane, there_reader, there_writer = found
            ends = {writer, there_writer}
            lane.open |= ends
            try:
                await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))
            finally:
                lane.open -= ends
                there_writer.close()
        finally:
            writer.close()

    async def _connect(self) -> tuple[_Lane, asyncio.StreamReader, asyncio.StreamWriter] | None:
        for back_end in self._next_round():
            with suppress(OSError, TimeoutError):
                reader, writer = await asyncio.wait_for(
                    asyncio.open_connection(back_end.host, back_end.port), CONNECT_DEADLINE_S
                )
                with self._guard:
                    lane = self._lanes.get(back_end, _Lane())
                    lane.served += 1
                return lane, reader, writer
        return None

    def _next_round(self) -> list[BackEnd]:
        with self._guard:
            if self._order:
                self._order.append(self._order.pop(0))
            return self._order[-1:] + self._order[:-1]


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
    except OSError:
        writer.transport.abort()


def _abort(lane: _Lane) -> None:
    for writer in list(lane.open):
        writer.transport.abort()
