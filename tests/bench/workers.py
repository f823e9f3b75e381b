"""Starts the measuring programs, which run beside this process and answer in JSON."""

from __future__ import annotations

import subprocess
import sys
from typing import TypeVar

import msgspec

from tests.bench import generator, plain_client
from tests.bench.store import ROOT

T = TypeVar("T")
GRACE_S = 30.0
OK = 300


class WorkerError(RuntimeError):
    """A measuring program failed, or what it measured was not what was asked for."""


def generate(job: generator.Job) -> generator.Sent:
    sent = _run("tests.bench.generator", job, generator.Sent, generator.DEADLINE_S)
    if sent.requests != job.requests:
        message = f"{sent.requests} of {job.requests} requests were answered"
        raise WorkerError(message)
    return sent


def call(job: plain_client.Job) -> plain_client.Done:
    """Every call must be accepted."""
    done = _run("tests.bench.plain_client", job, plain_client.Done, plain_client.DEADLINE_S)
    refused = [status for status in done.statuses if status >= OK]
    if refused or len(done.statuses) != len(job.calls):
        message = f"{len(refused)} of {len(job.calls)} calls were refused, with {sorted(set(refused))}"
        raise WorkerError(message)
    return done


def _run(module: str, job: msgspec.Struct, type_: type[T], deadline_s: float) -> T:
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=msgspec.json.encode(job),
        capture_output=True,
        cwd=ROOT,
        timeout=deadline_s + GRACE_S,
        check=False,
    )
    if done.returncode:
        tail = done.stderr.decode(errors="replace").strip().splitlines()[-3:]
        message = f"{module} ended with {done.returncode}: {' / '.join(tail)}"
        raise WorkerError(message)
    return msgspec.json.decode(done.stdout, type=type_)
