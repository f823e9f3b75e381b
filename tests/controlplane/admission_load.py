"""Held GPU pods at a steady rate, and an auditor who connects as the API server does: what of it failed, and why."""

from __future__ import annotations

import base64
import itertools
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import httpx

from common.domain import keys
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.discovery import JsonObject
from tests.controlplane.product import NAMESPACE, SERVICE, Product

THREADS: Final = 20
SWEEP_EVERY_S: Final = 3.0
STORED: Final = 5
"""One in so many is stored, the others are dry runs: admission judges them alike, and a small machine pays less."""
CONNECT_EVERY_S: Final = 0.5
STOP_WITHIN_S: Final = 30.0
REFRESH_EVERY_S: Final = 1.0


class Threads:
    """Context manager: loops in threads, ended together."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stopping.set()
        for thread in self._threads:
            thread.join(STOP_WITHIN_S)

    def add(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, daemon=True))


class HeldPods(Threads):
    """Creates `rate` pods a second that no reservation lets in; `reasons` counts what they were told."""

    def __init__(self, admin: ApiClient, namespace: str, pod: Callable[[str], JsonObject], rate: float) -> None:
        super().__init__()
        self.reasons: Counter[str] = Counter()
        self.failures: list[str] = []
        self.slowest_s = 0.0
        self._admin = admin
        self._namespace = namespace
        self._pod = pod
        self._rate = rate
        self._numbers = itertools.count()
        self._guard = threading.Lock()
        self._start = time.monotonic()
        for _ in range(THREADS):
            self.add(self._create)
        self.add(self._sweep)

    @property
    def created(self) -> int:
        return self.reasons.total()

    def achieved(self) -> float:
        """Pods a second so far."""
        return self.created / (time.monotonic() - self._start)

    def _create(self) -> None:
        while not self.stopping.is_set():
            number = next(self._numbers)
            # Each pod has its instant: a slow answer does not lower the rate while a thread is free.
            self.stopping.wait(max(0.0, self._start + number / self._rate - time.monotonic()))
            sent = time.monotonic()
            try:
                pod, dry = self._pod(f"held-{number}"), bool(number % STORED)
                answer = self._admin.create(pod, namespace=self._namespace, dry_run=dry).object
            except (ApiError, httpx.HTTPError) as error:
                with self._guard:
                    self.failures.append(f"{number}: {error}")
                continue
            with self._guard:
                self.reasons[_reason(answer)] += 1
                self.slowest_s = max(self.slowest_s, time.monotonic() - sent)

    def _sweep(self) -> None:
        """They are about admission: gone before anybody writes to them, they cost the machine little."""
        while not self.stopping.wait(SWEEP_EVERY_S):
            with suppress(ApiError, httpx.HTTPError):
                self._admin.request("DELETE", self._admin.path("pods", self._namespace))


class Connections(Threads):
    """A new TLS connection to each webhook in turn, verified against each bundle that is injected."""

    def __init__(self, product: Product, bundles: Callable[[], Sequence[bytes]]) -> None:
        super().__init__()
        self.serials: Counter[str] = Counter()
        self.failures: list[str] = []
        self._product = product
        self._bundles = bundles
        self.add(self._connect)

    def _connect(self) -> None:
        known: Sequence[bytes] = ()
        while not self.stopping.wait(CONNECT_EVERY_S):
            # Like an API server that is behind, the auditor learns of a new bundle a moment later.
            with suppress(ApiError, httpx.HTTPError):
                known = self._bundles()
            refresh = time.monotonic() + REFRESH_EVERY_S
            while time.monotonic() < refresh and not self.stopping.wait(CONNECT_EVERY_S):
                for replica in self._product.webhooks:
                    for bundle in known:
                        self._handshake(replica.port, bundle)

    def _handshake(self, port: int, bundle: bytes) -> None:
        context = ssl.create_default_context(cadata=bundle.decode())
        try:
            with (
                socket.create_connection(("127.0.0.1", port), timeout=5) as connection,
                context.wrap_socket(connection, server_hostname=f"{SERVICE}.{NAMESPACE}.svc") as secured,
            ):
                shown = secured.getpeercert() or {}
        except OSError as error:
            self.failures.append(f"port {port}, {bundle.count(b'BEGIN')} CAs: {error}")
        else:
            self.serials[str(shown["serialNumber"])] += 1


def bundle_of(configuration: JsonObject) -> Sequence[bytes]:
    """The bundle of each entry."""
    return [base64.b64decode(entry["clientConfig"].get("caBundle", "")) for entry in configuration["webhooks"]]


def _reason(stored: JsonObject) -> str:
    found = str(stored["metadata"].get("annotations", {}).get(keys.HELD, "not held"))
    return found.partition(":")[0]
