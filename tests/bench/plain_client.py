"""A plain client with so many requests in flight and nothing else: what the API server can do here, without us.

A program, so that it shares no interpreter with the harness.
    python -m tests.bench.plain_client   with a JSON object on standard input (`Job`), answers `Done` on standard output
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from aiohttp import ClientSession, ClientTimeout, TCPConnector

from tests.controlplane.kubeconfig import read_kubeconfig

DEADLINE_S = 300.0
TRIES = 10
THROTTLED = 429


class Call(msgspec.Struct):
    method: str
    path: str
    body: str
    content_type: str = "application/json"


class Job(msgspec.Struct):
    kubeconfig: str
    in_flight: int
    calls: Sequence[Call]


class Done(msgspec.Struct):
    seconds: float
    """From the first request to the last answer, connections made before."""
    statuses: list[int]
    latencies_ms: list[float]
    throttled: int
    """Answers 429 that were waited out; the API server's own limits, not ours."""


async def run(job: Job) -> Done:
    connection = read_kubeconfig(Path(job.kubeconfig))
    connector = TCPConnector(ssl=connection.tls(), limit=job.in_flight)
    done = Done(0.0, [], [], 0)
    async with ClientSession(
        connection.server, connector=connector, headers=connection.headers(), timeout=ClientTimeout(total=60)
    ) as http:
        await asyncio.gather(*(_connect(http) for _ in range(job.in_flight)))
        calls = iter(job.calls)
        began = time.perf_counter()
        await asyncio.gather(*(_drive(http, calls, done) for _ in range(job.in_flight)))
        done.seconds = time.perf_counter() - began
    return done


async def _connect(http: ClientSession) -> None:
    async with http.get("/version") as answer:
        await answer.read()


async def _drive(http: ClientSession, calls: Iterator[Call], done: Done) -> None:
    for call in calls:
        began = time.perf_counter()
        for _ in range(TRIES):
            headers = {"Content-Type": call.content_type}
            async with http.request(call.method, call.path, data=call.body.encode(), headers=headers) as answer:
                await answer.read()
            if answer.status != THROTTLED:
                break
            done.throttled += 1
            await asyncio.sleep(float(answer.headers.get("Retry-After", "1")))
        done.statuses.append(answer.status)
        done.latencies_ms.append((time.perf_counter() - began) * 1000)


def main() -> None:
    job = msgspec.json.decode(sys.stdin.buffer.read(), type=Job)
    done = asyncio.run(asyncio.wait_for(run(job), DEADLINE_S))
    sys.stdout.buffer.write(msgspec.json.encode(done))


if __name__ == "__main__":
    main()
