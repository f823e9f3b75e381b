"""The lane does what its mode says, on plain TCP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from tests.controlplane.fault_splitter import FaultLane, Mode
from tests.controlplane.loop_thread import LoopThread
from tests.controlplane.splitter import BackEnd
from tests.faults.timing import monotonic

PATIENCE_S = 5.0
SHORT_S = 0.3


@pytest.fixture(name="lane")
def lane_to_an_echo() -> Iterator[FaultLane]:
    thread = LoopThread("echo")

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            writer.write(chunk)
        writer.close()

    async def listen() -> asyncio.Server:
        return await asyncio.start_server(echo, "127.0.0.1", 0)

    server = thread.run(listen())
    with FaultLane(BackEnd("127.0.0.1", server.sockets[0].getsockname()[1])) as lane:
        yield lane
    thread.stop()
    server.close()


def _connected(lane: FaultLane, deadline_s: float = PATIENCE_S) -> socket.socket:
    return socket.create_connection((lane.back_end.host, lane.back_end.port), deadline_s)


def test_good_lane_passes_everything(lane: FaultLane) -> None:
    with _connected(lane) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"


def test_slow_lane_keeps_answers_back(lane: FaultLane) -> None:
    lane.mode = Mode(delay_s=SHORT_S)
    with _connected(lane) as client:
        began = monotonic()
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"
        assert monotonic() - began >= SHORT_S


def test_lossy_lane_passes_everything_late_and_in_order(lane: FaultLane) -> None:
    lane.mode = Mode(lost=1.0, again_s=SHORT_S)
    with _connected(lane) as connection:
        began = monotonic()
        connection.sendall(b"one")
        assert connection.recv(100) == b"one"
        assert monotonic() - began >= 2 * SHORT_S


@pytest.mark.parametrize("number", [0, 3])
def test_cut_lane_passes_so_many_bytes_of_an_answer(lane: FaultLane, number: int) -> None:
    lane.mode = Mode(cut_after=number, way="back")
    with _connected(lane) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"[:number]
        assert client.recv(100) == b""


def test_cut_lane_passes_so_many_bytes_of_a_request(lane: FaultLane) -> None:
    lane.mode = Mode(cut_after=0)
    with _connected(lane) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b""


def test_black_hole_takes_and_never_answers_until_it_is_cut(lane: FaultLane) -> None:
    lane.mode = Mode(black_hole=True)
    with _connected(lane, SHORT_S) as client:
        client.sendall(b"hello")
        with pytest.raises(TimeoutError):
            client.recv(100)
        lane.cut()
        client.settimeout(PATIENCE_S)
        assert client.recv(100) == b""
