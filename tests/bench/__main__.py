"""Runs the benchmarks. Exit code 0 unless something could not be measured; a missed target is a finding, no failure.

python -m tests.bench [--quick] [names …]      measure, print a table, write build/bench/<date>.json
python -m tests.bench --markdown [report.json] write the table of the newest (or that) report into docs/reference
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from tests.bench import burst, decisions, release, store, table, windows, writes
from tests.bench.figures import Outcome, Report
from tests.bench.scene import Scene
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.product import Product
from tests.controlplane.programs import ensure_programs
from tests.controlplane.toolchain import NoToolchainError

BENCHES: Mapping[str, Callable[[Scene], Outcome]] = {
    decisions.NAME: decisions.run,
    windows.NAME: windows.run,
    release.NAME: release.run,
    writes.NAME: writes.run,
    burst.NAME: burst.run,
}
INTERRUPTED = 130
WIDTH = 140


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Measure, beside the ordinary ways.")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHES)}; all without any")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing")
    parser.add_argument("--markdown", nargs="?", const="", metavar="JSON", help="write a report's table into the docs")
    arguments = parser.parse_args()
    if arguments.markdown is not None:
        return _document(arguments.markdown)
    unknown = sorted(set(arguments.names) - set(BENCHES))
    if unknown:
        parser.error(f"no benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHES)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return _measure(arguments.names or list(BENCHES), quick=arguments.quick)
    except NoToolchainError as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted, everything is stopped", file=sys.stderr)
        return INTERRUPTED


def _measure(names: Sequence[str], *, quick: bool) -> int:
    began, load = datetime.now(UTC), store.load()
    name = store.file_name(began)
    programs = ensure_programs()
    store.FOLDER.mkdir(parents=True, exist_ok=True)
    _say("starting the control plane, two webhooks and a reconciler")
    with ControlPlane(programs=programs) as control_plane, Product(control_plane, webhook_count=2) as product:
        scene = Scene(product, store.FOLDER, name, quick, _say)
        scene.furnish()
        outcomes = [_one(scene, bench) for bench in names]
        control_plane.keep_directory = any(outcome.problem for outcome in outcomes)
        if control_plane.keep_directory:
            _say(f"logs stay in {control_plane.directory}")
    report = Report(f"{began:%Y-%m-%d %H:%M} UTC", store.commit(), quick, store.machine(load), outcomes)
    path = store.write(report, name)
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    for part in table.terminal(report):
        console.print(part)
    _say(f"written to {path}")
    return 0 if report.complete else 1


def _one(scene: Scene, bench: str) -> Outcome:
    _say(f"{bench} …")
    began = time.monotonic()
    try:
        scene.settle()
        found = BENCHES[bench](scene)
    except Exception as problem:  # noqa: BLE001 - what cannot be measured is told, and the others are measured
        found = Outcome(bench, problem=f"{type(problem).__name__}: {problem}")
        _say(f"{bench}: {found.problem}")
    return Outcome(found.bench, found.figures, found.profiles, found.problem, round(time.monotonic() - began, 1))


def _document(given: str) -> int:
    try:
        report = store.read(Path(given) if given else store.newest())
    except OSError as problem:
        print(problem, file=sys.stderr)
        return 2
    text = table.markdown(report)
    store.DOCUMENT.write_text(store.with_table(store.DOCUMENT.read_text(), text))
    print(text)
    return 0


def _say(text: str) -> None:
    print(f"bench: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
