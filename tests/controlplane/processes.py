"""Child processes that never outlive the test run, with their logs in files."""

from __future__ import annotations

import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from tests.controlplane.polling import until

WRAPPER = Path(__file__).with_name("dying_with_parent.py")
# Below the range from which the kernel takes ports for outgoing connections.
PORTS = range(20_000, 32_000)
KILL_DEADLINE_S = 10.0


def free_port(host: str = "127.0.0.1") -> int:
    """Return a port on which nobody listens."""
    for _ in range(1000):
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind((host, port))
            except OSError:
                continue
            return port
    message = "no free port on loopback"
    raise RuntimeError(message)


class _Nursery:
    """One thread that starts every child and lives as long as the process.

    The kernel's parent-death signal comes when the starting *thread* ends, so children started from a short-lived
    thread of a test would die with it.
    """

    def __init__(self) -> None:
        self._orders: queue.SimpleQueue[
            tuple[Callable[[], subprocess.Popen[bytes]], Future[subprocess.Popen[bytes]]]
        ] = queue.SimpleQueue()
        self._start = threading.Lock()
        self._thread: threading.Thread | None = None

    def bear(self, order: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
        with self._start:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="child-nursery", daemon=True)
                self._thread.start()
        result: Future[subprocess.Popen[bytes]] = Future()
        self._orders.put((order, result))
        return result.result(timeout=30)

    def _work(self) -> None:
        while True:
            order, result = self._orders.get()
            try:
                result.set_result(order())
            except BaseException as error:  # noqa: BLE001 (handed to the caller)
                result.set_exception(error)


_NURSERY = _Nursery()


class Child:
    """A process that we started; all signals go to its own id."""

    def __init__(
        self, command: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        """Remember what to run; nothing is started yet."""
        self.command = [str(part) for part in command]
        self.log = log
        self.env = dict(os.environ if env is None else env)
        self.cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def name(self) -> str:
        """Return the name by which the child is spoken of."""
        return self.log.stem

    @property
    def pid(self) -> int:
        """Return the process id."""
        if self._process is None:
            message = f"{self.name} was not started"
            raise RuntimeError(message)
        return self._process.pid

    @property
    def code(self) -> int | None:
        """Return the exit code, None while it runs or before it was started."""
        return None if self._process is None else self._process.poll()

    @property
    def running(self) -> bool:
        """Say whether the process is there (a frozen one is)."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> Child:
        """Start it (again, if it has ended); the log is appended to."""
        if self.running:
            message = f"{self.name} runs already"
            raise RuntimeError(message)
        command = [sys.executable, "-I", "-S", str(WRAPPER), str(os.getpid()), *self.command]

        def order() -> subprocess.Popen[bytes]:
            with self.log.open("ab") as log:
                # A session of its own: Ctrl-C in the terminal reaches us alone, and we stop the children in order.
                return subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=self.env,
                    cwd=self.cwd,
                    start_new_session=True,
                )

        self._process = _NURSERY.bear(order)
        return self

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.running:
            os.kill(self.pid, number)

    def freeze(self) -> None:
        """Stop the process where it is."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen process go on."""
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self.signal(signal.SIGKILL)
        self._gone(KILL_DEADLINE_S)

    def terminate(self, deadline_s: float = 10.0) -> int | None:
        """Ask it to end, then make it; returns the exit code."""
        self.signal(signal.SIGTERM)
        self.thaw()
        if not self._gone(deadline_s):
            self.kill()
        return self.code

    def wait(self, deadline_s: float) -> int:
        """Wait for it to end by itself and return the exit code."""
        until(lambda: self.code is not None, deadline_s, f"end of {self.name}")
        assert self._process is not None
        return int(self._process.returncode)

    def tail(self, lines: int = 20) -> str:
        """Return the end of its log."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _gone(self, deadline_s: float) -> bool:
        if self._process is None:
            return True
        try:
            self._process.wait(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            return False
        return True
