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


def release_before(*parts: str) -> str:
    """The commit of the newest tag; without one, the last but one of those that changed any of the parts. Short.

    Raises NoHistoryError.
    """
    tags = _git("tag", "--list", "v*", "--sort=-version:refname").decode().split()
    if tags:
        return _git("rev-parse", "--short", f"{tags[0]}^{{commit}}").decode().strip()
    commits = _git("log", "-2", "--format=%h", "--", *parts).decode().split()
    if len(commits) < 2:
        message = f"this clone knows {len(commits)} commits that changed {', '.join(parts)}; two are needed"
        raise NoHistoryError(message)
    return commits[-1]


def older(folder: Path, *parts: str) -> Path:
    """Unpack these parts of the release before this one, into a folder named by its commit. Raises NoHistoryError."""
    commit = release_before(*parts)
    if not (folder / commit).exists():
        unpack(commit, folder / commit, *parts)
    return folder / commit


def unpack(commit: str, target: Path, *parts: str) -> None:
    """Put the parts, or all there is, into a new folder."""
    target.mkdir(parents=True)
    archive = _git("archive", commit, *parts)
    subprocess.run([shutil.which("tar") or "tar", "-x", "-C", str(target)], input=archive, check=True)


def _git(*arguments: str) -> bytes:
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, timeout=DEADLINE_S)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", b"") or str(error).encode()
        message = f"git {arguments[0]}: {told.decode(errors='replace').strip()}"
        raise NoHistoryError(message) from error
    return done.stdout
