"""Builds the two Go servers that stand beside ours."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.bench.store import FOLDER
from tests.controlplane.toolchain import find_go, go_environment

HERE = Path(__file__).parent
PEERS = ("gosmall", "gocontroller")
DEADLINE_S = 900.0


class BuildError(RuntimeError):
    """A peer could not be built, so there is nothing to stand beside."""


def build(name: str) -> Path:
    """Quick when nothing changed: Go keeps what it compiled. The first time gocontroller fetches three modules."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    target = FOLDER / name
    command = [str(find_go()), "build", "-mod=readonly", "-trimpath", "-o", str(target), "."]
    done = subprocess.run(
        command,
        cwd=HERE / name,
        env=go_environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode:
        message = f"go build of {name}: {' / '.join(done.stderr.strip().splitlines()[-3:])}"
        raise BuildError(message)
    return target
