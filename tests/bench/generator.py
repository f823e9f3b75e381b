"""Sends one body again and again over keep-alive TLS connections; a program, so that it shares no interpreter.

Bounded by a count of requests. Raw protocols, no HTTP library: it must have time to spare while the server has none.
    python -m tests.bench.generator   with a JSON object on standard input (`Job`), answers one on standard output
"""

from __future__ import annotations

import asyncio
import os
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec

from tests.bench.processes import cpu_s, pin

DEADLINE_S = 120.0


class Job(msgspec.Struct):
    port: int
    ca: str
    body: str
    """File with the body of each request."""
    path: str
    requests: int
    pid: int
    """The server's, whose CPU time is read before the first and after the last request."""
    connections: int = 8
    cpu: int = 1
    rate: float | None = None
    """Requests a second, on a schedule; None: each connection sends again as soon as it was answered."""


class Sent(msgspec.Struct):
    requests: int
    seconds: float
    cpu_s: float
    """Of the server, without connecting."""
    latencies_ms: list[float]
    """From the scheduled instant where there is a schedule."""
    first: str
    """The first answer's body, to be looked at."""


class Connection(asyncio.Protocol):
    """One request at a time."""

    def __init__(self) -> None:
        self._answer: asyncio.Future[bytes] | None = None
        self._received = b""
        self._whole = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are none by their type.
        self.transport = cast("asyncio.Transport", transport)

    def ask(self, request: bytes) -> asyncio.Future[bytes]:
        self._answer = asyncio.get_running_loop().create_future()
        self._received, self._whole = b"", 0
        self.transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._whole:
            head, mark, _ = self._received.partition(b"\r\n\r\n")
            if not mark:
                return
            try:
                self._whole = len(head) + 4 + _length(head)
            except RuntimeError as problem:
                self.connection_lost(problem)
                return
        if len(self._received) >= self._whole and self._answer is not None and not self._answer.done():
            self._answer.set_result(self._received)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the server closed the connection"))


def _length(head: bytes) -> int:
    status, *lines = head.split(b"\r\n")
    if b" 200 " not in status + b" ":
        message = f"not a 200: {status.decode(errors='replace')}"
        raise RuntimeError(message)
    for line in lines:
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    message = "an answer without a length"
    raise RuntimeError(message)


def request_of(job: Job) -> bytes:
    body = Path(job.body).read_bytes()
    head = (
        f"POST {job.path} HTTP/1.1\r\nHost: 127.0.0.1:{job.port}\r\nUser-Agent: bench\r\nAccept: application/json\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def run(job: Job) -> Sent:
    loop = asyncio.get_running_loop()
    context = ssl.create_default_context(cafile=job.ca)
    context.check_hostname = False
    pairs = [
        await loop.create_connection(Connection, "127.0.0.1", job.port, ssl=context) for _ in range(job.connections)
    ]
    connections = [protocol for _, protocol in pairs]
    request = request_of(job)
    first = await connections[0].ask(request)
    latencies: list[float] = []
    left = iter(range(job.requests))
    used, began = cpu_s(job.pid), time.perf_counter()
    await asyncio.gather(*(_drive(connection, request, left, job.rate, began, latencies) for connection in connections))
    seconds, used = time.perf_counter() - began, cpu_s(job.pid) - used
    for connection in connections:
        connection.transport.abort()
    return Sent(len(latencies), seconds, used, latencies, first.partition(b"\r\n\r\n")[2].decode())


async def _drive(
    connection: Connection,
    request: bytes,
    left: Iterator[int],
    rate: float | None,
    began: float,
    latencies: list[float],
) -> None:
    for number in left:
        due = time.perf_counter()
        if rate is not None:
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
        await connection.ask(request)
        latencies.append((time.perf_counter() - due) * 1000)


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    pin(os.getpid(), job.cpu)
    try:
        import uvloop  # noqa: PLC0415 - it is not there on every platform
    except ImportError:
        factory = None
    else:
        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        sent = runner.run(asyncio.wait_for(run(job), DEADLINE_S))
    sys.stdout.buffer.write(msgspec.json.encode(sent))


if __name__ == "__main__":
    main()
