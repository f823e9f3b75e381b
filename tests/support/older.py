"""The tree of an earlier commit, for what has to get on with it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("webhook", "reconciler", "common", "certs")
DEADLINE_S = 60.0


class NoHistoryError(RuntimeError):
    """This tree does not know where it comes from: no git, no repository, or a clone of one commit."""


def older(folder: Path, *parts: str) -> Path:
    """Unpack these parts as they were before the last commit that changed any of them.

    The folder that it returns is named by the commit. Raises NoHistoryError.
    """
    commits = _git("log", "-2", "--format=%h", "--", *parts).decode().split()
    if len(commits) < 2:
        message = f"this clone knows {len(commits)} commits that changed {', '.join(parts)}; two are needed"
        raise NoHistoryError(message)
    target = folder / commits[-1]
    if not target.exists():
        target.mkdir(parents=True)
        archive = _git("archive", commits[-1], *parts)
        subprocess.run([shutil.which("tar") or "tar", "-x", "-C", str(target)], input=archive, check=True)
    return target


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, timeout=DEADLINE_S)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", b"") or str(error).encode()
        message = f"git {arguments[0]}: {told.decode(errors='replace').strip()}"
        raise NoHistoryError(message) from error
    return done.stdout
