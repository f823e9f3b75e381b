"""Other people's programs: their output goes to the terminal or into the error."""

# ruff: noqa: TID251 - programs that run for real: they read the environment and watch deadlines

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

DEADLINE_S = 600.0
Record: TypeAlias = Callable[[str, object], None]
"""Puts what a test measured into the report."""


class UnableError(RuntimeError):
    """This machine cannot run the suite; the message is one sentence that says why."""


def run(
    *command: str | Path,
    deadline_s: float = DEADLINE_S,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    check: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Run to the end; a failure is raised with what was said."""
    arguments = [str(part) for part in command]
    done = subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        timeout=deadline_s,
        check=False,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )
    if check and done.returncode != 0:
        message = f"{' '.join(arguments)}: exit {done.returncode}\n{done.stdout}{done.stderr}"
        raise RuntimeError(message)
    return done


def lines(*command: str | Path, deadline_s: float = DEADLINE_S, cwd: Path | None = None) -> Sequence[str]:
    """What a program printed."""
    return run(*command, deadline_s=deadline_s, cwd=cwd).stdout.split()


def say(text: str) -> None:
    sys.stderr.write(f"kind: {text}\n")
    sys.stderr.flush()
