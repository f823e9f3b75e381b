"""A way to one replica that can be made bad: slow, cut after so many bytes, or a hole that takes and never answers."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Literal, Self

from tests.controlplane.loop_thread import LoopThread
from tests.controlplane.splitter import BackEnd

CHUNK: Final = 65_536
TURN_S: Final = 0.05
Way = Literal["there", "back"]


@dataclass(frozen=True)
class Mode:
    """`delay_s` before each piece of an answer; a connection ends after `cut_after` bytes on its `way`.

    Every piece, both ways, comes up to `jitter_s` late; the share `lost` of them `again_s` later still.
    """

    delay_s: float = 0.0
    jitter_s: float = 0.0
    lost: float = 0.0
    again_s: float = 0.0
    cut_after: int | None = None
    way: Way = "there"
    black_hole: bool = False


GOOD: Final = Mode()


class FaultLane:
    """Context manager: put `back_end` behind a Service in the place of the replica; `mode` may change at any time."""

    def __init__(self, target: BackEnd) -> None:
        self.mode = GOOD
        self.closed_by_replica = 0
        """Connections that the replica ended while the client still held them open."""
        self._target = target
        self._chance = random.Random(0)
        self._open: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Self:
        self._thread = LoopThread("fault-lane")
        self.back_end = BackEnd("127.0.0.1", self._thread.run(self._listen()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.run(self._close())
        self._thread.stop()

    def cut(self) -> None:
        """End every connection, so that clients connect anew."""
        self._thread.post(self._abort)

    async def _listen(self) -> int:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        self._server.close()
        self._abort()
        # Transports end one turn of the loop after they were told to.
        await asyncio.sleep(TURN_S)

    def _abort(self) -> None:
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        self._open.add(writer)
        try:
            if self.mode.black_hole:
                await reader.read(-1)  # until the client gives up
                return
            there_reader, there = await asyncio.open_connection(self._target.host, self._target.port)
            ends.add(there)
            self._open.add(there)
            both = (self._pump(reader, there, "there"), self._pump(there_reader, writer, "back"))
            _, pending = await asyncio.wait(map(asyncio.ensure_future, both), return_when=asyncio.FIRST_COMPLETED)
            if not reader.at_eof() and there_reader.at_eof():
                self.closed_by_replica += 1
            for task in pending:
                task.cancel()
        except OSError:
            pass
        finally:
            self._open -= ends
            for end in ends:
                with suppress(OSError, RuntimeError):
                    end.close()

    def _late_s(self, mode: Mode, way: Way) -> float:
        again_s = mode.again_s if self._chance.random() < mode.lost else 0.0
        return (mode.delay_s if way == "back" else 0.0) + self._chance.uniform(0, mode.jitter_s) + again_s

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        passed = 0
        with suppress(OSError):
            while chunk := await reader.read(CHUNK):
                mode = self.mode
                if late_s := self._late_s(mode, way):
                    await asyncio.sleep(late_s)
                left = None if mode.cut_after is None or mode.way != way else max(0, mode.cut_after - passed)
                passed += len(chunk)
                writer.write(chunk if left is None else chunk[:left])
                await writer.drain()
                if left is not None and len(chunk) >= left:
                    return
