"""Temporary folders: logs and certificates on disk, etcd's data in memory where the machine allows it."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import IO

MEMORY = Path("/dev/shm")  # noqa: S108 (a mount, tested for before use)
PREFIX = "gpures-etcd-"
ENOUGH_BYTES = 2 << 30


class DataFolder:
    """A folder in memory, if there is room, which is swept up later if we are killed before we can remove it."""

    def __init__(self, otherwise: Path) -> None:
        """Make the folder; otherwise says where when memory does not serve."""
        parent = MEMORY if _usable(MEMORY) else otherwise
        _sweep(parent)
        self._root = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        # The lock tells the living from the dead: the kernel drops it with the process that holds it.
        self._lock: IO[str] = (self._root / "in-use").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = self._root / "data"
        self.path.mkdir(mode=0o700)

    def remove(self) -> None:
        """Remove the folder with everything in it."""
        self._lock.close()
        shutil.rmtree(self._root, ignore_errors=True)


def _usable(parent: Path) -> bool:
    return parent.is_dir() and os.access(parent, os.W_OK) and shutil.disk_usage(parent).free >= ENOUGH_BYTES


def _sweep(parent: Path) -> None:
    for left in parent.glob(f"{PREFIX}*"):
        # Another user's folder, or one that another run sweeps at the same moment.
        with suppress(OSError), (left / "in-use").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
