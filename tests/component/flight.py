"""Reservations and pods that come while something is done to the product, and a canary with nothing to do with it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Final

import httpx

from common.domain import keys
from tests.component.builders import gates, pod, reservation
from tests.controlplane.admission_load import Threads
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.polling import until
from tests.e2e import reading
from tests.faults.timing import wall, whole_second

CANARY_EVERY_S, WINDOW_EVERY_S, POD_EVERY_S = 0.1, 3.0, 1.0
AHEAD: Final = timedelta(seconds=4)
ARRIVES_WITHIN_S: Final = 60.0

Step = Callable[[ApiClient, str], None]


class Flight(Threads):
    """Context manager; every create is noted, and none may fail. `tag` tells the names of one flight from another's."""

    def __init__(self, admin: ApiClient, namespace: str, gpu_class: str, tag: str) -> None:
        super().__init__()
        self.canaries = 0
        self.failures: list[str] = []
        """Creates that were refused or cut."""
        self.windows: list[str] = []
        """Reservations booked ahead, each with a pod of the same name that waits for it."""
        self.pods: list[str] = []
        """Pods for the window `open`, which is open all the while."""
        self._admin = admin
        self._namespace = namespace
        self._class = gpu_class
        for kind, every_s, step in (
            ("canary", CANARY_EVERY_S, self._canary),
            ("window", WINDOW_EVERY_S, self._window),
            ("pod", POD_EVERY_S, self._pod),
        ):
            self.add(partial(self._loop, f"{kind}-{tag}", every_s, step))

    def arrive(self) -> None:
        """Wait until every window is open and every pod has been let in."""
        for name in (*self.windows, *self.pods):
            until(partial(self._let_in, name), ARRIVES_WITHIN_S, f"pod {name} is let in")

    def _let_in(self, name: str) -> bool:
        found = self._admin.get("pods", name, self._namespace)
        return not gates(found) and keys.CLAIM in reading.annotations(found)

    def _loop(self, name: str, every_s: float, step: Step) -> None:
        with ApiClient(self._admin.connection) as client:
            for number in itertools.count():
                if self.stopping.wait(every_s):
                    return
                try:
                    step(client, f"{name}-{number}")
                except (ApiError, httpx.HTTPError) as error:
                    self.failures.append(f"{name}-{number}: {error!r}")

    def _canary(self, client: ApiClient, name: str) -> None:
        plain = {"containers": [{"name": "main", "image": "test.example/none"}]}
        client.create(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": plain}, namespace=self._namespace
        )
        client.delete("pods", name, self._namespace, grace_s=0)
        self.canaries += 1

    def _window(self, client: ApiClient, name: str) -> None:
        start = reading.on_the_wire(whole_second(wall() + AHEAD))
        client.create(reservation(name, {"gpuClass": self._class, "start": start}), namespace=self._namespace)
        self._create_pod(client, name, name)
        self.windows.append(name)

    def _pod(self, client: ApiClient, name: str) -> None:
        self._create_pod(client, name, "open")
        self.pods.append(name)

    def _create_pod(self, client: ApiClient, name: str, uses: str) -> None:
        asked = pod(name, labels={keys.CLASS_LABEL: self._class}, annotations={keys.USE_RESERVATION: uses})
        client.create(asked, namespace=self._namespace)
