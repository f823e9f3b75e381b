"""Runs the demo: 0 when the story was told and every claim was proved, 1 when not, 130 after Ctrl-C."""

from __future__ import annotations

import io
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from rich.console import Console
from rich.live import Live

from tests.controlplane.client import ApiError
from tests.controlplane.polling import NotInTimeError
from tests.controlplane.programs import Programs, ensure_programs
from tests.controlplane.toolchain import NoToolchainError
from tests.demo import cast, plain, proofs, view
from tests.demo.chronicle import Chronicle
from tests.demo.evidence import Evidence
from tests.demo.house import House, PlainHouse, Say
from tests.demo.model import Topic
from tests.demo.pace import Pace
from tests.demo.proofs import Verdict
from tests.demo.recordings import Recordings
from tests.demo.scene import Scene
from tests.demo.staying import things_to_try
from tests.demo.story import STEPS, StoryError
from tests.demo.watch import Watching
from tests.kind.house import KindHouse
from tests.kind.running import UnableError

REFRESH = 8
INTERRUPTED = 130


def main() -> int:
    """Tell the story, then say what was proved."""
    # Also where a shell started this in the background, with SIGINT ignored: what was started must be stopped.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A locale without × and – shall not end the demo.
        sys.stdout.reconfigure(errors="replace")
    try:
        pace = Pace.parse(os.environ.get("PACE", ""))
        house_of = _houses(os.environ.get("CLUSTER", ""), ensure_programs())
    except (ValueError, NoToolchainError) as problem:
        print(problem, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    console = Console(highlight=False)
    chronicle = Chronicle(len(STEPS))
    with ExitStack() as stack:
        house = house_of(_progress(chronicle))
        try:
            return _run(stack.enter_context(house), chronicle, pace, console)
        except KeyboardInterrupt:
            print("\ninterrupted, stopping everything", file=sys.stderr)
            return INTERRUPTED
        except UnableError as problem:
            print(problem, file=sys.stderr)
            return 3
        except (ApiError, NotInTimeError) as problem:
            print(f"the stage could not be set: {problem}\n{house.keeps_logs()}", file=sys.stderr)
            return 1
        finally:
            # Whoever presses Ctrl-C twice shall not interrupt the cleaning up.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)


def _houses(cluster: str, programs: Programs) -> Callable[[Say], House]:
    """What CLUSTER names; raises ValueError with a sentence for people."""
    if cluster == "kind":
        return KindHouse
    if cluster:
        message = f"CLUSTER is kind, or is not given, and not {cluster!r}"
        raise ValueError(message)
    return lambda say: PlainHouse(programs, say)


def _run(house: House, chronicle: Chronicle, pace: Pace, console: Console) -> int:
    _progress(chronicle)("adding 2 classes and the namespaces of alice, bob and carol")
    cast.furnish(house.cluster)
    scene = Scene(house, Watching(house, chronicle), chronicle, pace)
    broken = _show(scene, console)
    verdicts = proofs.prove(_evidence(scene))
    _conclude(verdicts, broken, console)
    failed = bool(broken) or not all(verdict.holds for verdict in verdicts)
    if failed:
        print(house.keeps_logs(), file=sys.stderr)
    if os.environ.get("KEEP", "") not in ("", "0"):
        _stay(house)
    return int(failed)


def _show(scene: Scene, console: Console) -> str:
    """Watch and tell; returns what broke the story off, which may be a gap in what was watched."""
    watching = scene.watching
    people = _is_for_people(console)
    try:
        with watching, _live(watching, console) if people else plain.PlainView(scene.chronicle, _print):
            return _tell(scene, Recordings.from_environment())
    except AssertionError as gap:
        return str(gap)


def _tell(scene: Scene, recordings: Recordings) -> str:
    """Go through the steps; returns what broke the story off."""
    for step in STEPS:
        scene.chronicle.step(step.title, step.sentence)
        scene.pace.read(1.5)
        try:
            step.act(scene)
        except (StoryError, NotInTimeError, ApiError) as problem:
            scene.chronicle.say(Topic.STEP, "broken off", str(problem))
            return f"step “{step.title}”: {problem}"
        recordings.take(step.title, scene.watching.snapshot())
    recordings.write()
    return ""


def _evidence(scene: Scene) -> Evidence:
    history = scene.watching.history
    return Evidence(
        record=scene.record,
        pods=history("pods"),
        reservations=history("reservations"),
        leases=history("leases"),
        nodes=history("nodes"),
        events=history("events"),
        audit=scene.audit(),
        unproved=scene.house.unproved,
    )


def _is_for_people(console: Console) -> bool:
    size = shutil.get_terminal_size()
    big = size.columns >= view.LEAST_WIDTH and size.lines >= view.LEAST_HEIGHT
    return sys.stdout.isatty() and not console.is_dumb_terminal and not os.environ.get("CI") and big


@contextmanager
def _live(watching: Watching, console: Console) -> Iterator[None]:
    def drawn() -> object:
        return view.draw(watching.snapshot(), console.width, console.height)

    with Live(get_renderable=drawn, console=console, screen=True, refresh_per_second=REFRESH):  # type: ignore[arg-type]
        yield


def _conclude(verdicts: Sequence[Verdict], broken: str, console: Console) -> None:
    if _is_for_people(console):
        console.print(view.verdicts(verdicts, broken))
        return
    print()
    for text in plain.summary(verdicts, broken):
        _print(text)


def _stay(house: House) -> None:
    _print("\nEverything stays up until Ctrl-C. To try (alice, bob and carol are ordinary tenants):\n")
    for text in things_to_try(house):
        _print(f"  {text}")
    try:
        signal.pause()
    except KeyboardInterrupt:
        _print("\nstopping")


def _progress(chronicle: Chronicle) -> Callable[[str], None]:
    return lambda text: _print(f"{chronicle.elapsed:7.2f}  {text}")


def _print(text: str) -> None:
    print(text, flush=True)


sys.exit(main())
