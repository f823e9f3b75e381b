"""A kubelet's way with a mounted Secret: its keys as files in a folder, all swapped at once by one symlink."""

from __future__ import annotations

import base64
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import httpx

from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.polling import until

DEADLINE_S = 10.0
GENERATION, LINK = "..generation-{}", "..data"


class SecretFiles:
    """Follows one Secret from `start` to `stop`; a Secret that goes leaves the files as they were."""

    def __init__(
        self, admin: ApiClient, namespace: str, name: str, folder: Path, *, every_s: float = 0.5, delay_s: float = 0.0
    ) -> None:
        """A change reaches the files `delay_s` after it was seen, which a real kubelet makes a minute or more."""
        self.folder = folder
        self.delay_s = delay_s
        self._admin = admin
        self._path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
        self._every_s = every_s
        self._count = 0
        self._version = ""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name=f"files of {name}", daemon=True)

    def start(self) -> None:
        """Return when the files are there."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._thread.start()
        until((self.folder / LINK).exists, DEADLINE_S + self.delay_s, f"files of {self._path}")

    def stop(self) -> None:
        """Leave the files as they are from now on."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(DEADLINE_S)

    @property
    def generations(self) -> int:
        """How often the files were swapped, the first time included."""
        return self._count

    def _work(self) -> None:
        waiting: list[tuple[float, Mapping[str, str]]] = []
        while not self._stopping.wait(self._every_s):
            data = self._changed()
            if data is not None:
                waiting.append((time.monotonic() + self.delay_s, data))
            while waiting and waiting[0][0] <= time.monotonic():
                self._swap(waiting.pop(0)[1])

    def _changed(self) -> Mapping[str, str] | None:
        try:
            secret = self._admin.request("GET", self._path, timeout_s=5).object
        except (ApiError, httpx.HTTPError):
            return None
        version = str(secret["metadata"]["resourceVersion"])
        if version == self._version:
            return None
        self._version = version
        found: Mapping[str, str] = secret.get("data") or {}
        return found

    def _swap(self, data: Mapping[str, str]) -> None:
        old = (self.folder / LINK).resolve() if (self.folder / LINK).exists() else None
        self._count += 1
        new = self.folder / GENERATION.format(self._count)
        new.mkdir(mode=0o700)
        for key, value in data.items():
            (new / key).write_bytes(base64.b64decode(value))
            if not (self.folder / key).is_symlink():
                (self.folder / key).symlink_to(Path(LINK) / key)
        link = self.folder / "..data-next"
        link.symlink_to(new.name)
        link.replace(self.folder / LINK)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)
