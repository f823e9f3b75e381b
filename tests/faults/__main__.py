"""Runs every fault that can be staged here and writes docs/reference/faults.md; with names only those, and no page.

python -m tests.faults [--brief] [F1 F14 …]      exit code 1 when a promise was broken
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.programs import ensure_programs
from tests.controlplane.toolchain import NoToolchainError
from tests.faults import report
from tests.faults.runner import Outcome, run
from tests.faults.table import FAULTS, Fault, by_id
from tests.faults.timing import wall
from tests.faults.world import World
from tests.support.older import PROGRAMS

INTERRUPTED = 130


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="Break everything, one at a time.")
    parser.add_argument("names", nargs="*", metavar="fault", help="of F1 … F42; all without any")
    parser.add_argument("--brief", action="store_true", help="each fault lasts as long as in make test")
    parser.add_argument("--page", action="store_true", help="some were asked for: renew their rows of the page")
    arguments = parser.parse_args()
    try:
        wanted = by_id(arguments.names) if arguments.names else FAULTS
    except LookupError as problem:
        parser.error(str(problem))
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        programs = ensure_programs()
        outcomes = _all(
            [fault for fault in wanted if fault.stage], ControlPlane(programs=programs), brief=arguments.brief
        )
    except NoToolchainError as problem:
        _say(str(problem))
        return 2
    except KeyboardInterrupt:
        _say("interrupted, everything is stopped")
        return INTERRUPTED
    if arguments.page or not arguments.names:
        length = "brief" if arguments.brief else "full"
        report.write(outcomes, report.Run(f"{wall():%Y-%m-%d %H:%M}", _commit(), length))
        _say(f"written to {report.PAGE}")
    return 0 if all(outcome.held for outcome in outcomes.values()) else 1


def _all(faults: Sequence[Fault], control_plane: ControlPlane, *, brief: bool) -> Mapping[str, Outcome]:
    outcomes: dict[str, Outcome] = {}
    # A backup that is put back confuses whoever does not start anew: nothing may come after it.
    ordered = sorted(faults, key=lambda fault: fault.id == "F18")
    _say("starting the control plane, two webhooks and two reconcilers")
    with control_plane, World(control_plane, brief=brief) as world:
        for fault in ordered:
            outcome = outcomes[fault.id] = run(world, fault)
            _told(outcome)
        control_plane.keep_directory = not all(outcome.held for outcome in outcomes.values())
        if control_plane.keep_directory:
            _say(f"logs stay in {control_plane.directory}")
    return outcomes


def _told(outcome: Outcome) -> None:
    recovered = "not recovered" if outcome.recovered_s is None else f"recovered in {outcome.recovered_s:.1f} s"
    _say(
        f"{outcome.fault.id} {outcome.fault.sentence}: {'held' if outcome.held else 'NOT HELD'}, {recovered}, "
        f"worst canary {outcome.worst_canary_s * 1000:.0f} ms of {outcome.canaries}, {outcome.attacks} attacks, "
        f"load per CPU {outcome.load:.1f}, {outcome.took_s:.0f} s"
    )
    for line in (*outcome.violations, *outcome.lost, *outcome.notes):
        _say(f"    {line}")


def _commit() -> str:
    root = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    changed = git("status", "--porcelain", "--untracked-files=no", "--", *PROGRAMS)
    return f"{git('rev-parse', '--short', 'HEAD') or 'unknown'}{' with changes' if changed else ''}"


def _say(text: str) -> None:
    sys.stderr.write(f"faults: {text}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
