"""The story, step by step: what the users do, what breaks, and what must follow."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tests.demo import cast, reading
from tests.demo.evidence import milliseconds
from tests.demo.scene import Scene

LONG = timedelta(minutes=15)
TAKEOVER_S = 8.0
SLOT = re.compile(r"(\d{4}-\d\d-\d\d) (\d\d:\d\d(?::\d\d)?) UTC$")


class StoryError(Exception):
    """The cluster did something else than the story tells."""


@dataclass(frozen=True)
class Step:
    """One step: what is told before it, and what is done."""

    title: str
    sentence: str
    act: Callable[[Scene], None]


def book(scene: Scene) -> None:
    # The window must still be closed when the steps until `opens` have been read; a hold is told after 5 s.
    start = scene.pace.instant(least=9, paced=17)
    scene.book("alice", "sprint", "h100", 2, scene.pace.scaled(30, 15), start)
    scene.book("bob", "train", "h100", 4, LONG)
    scene.tell("Both are confirmed: 6 of 12 h100 are promised. alice's window opens later, bob's is open.")
    scene.pace.read()


def too_early(scene: Scene) -> None:
    for name in ("notebook-0", "notebook-1"):
        stored = scene.submit("alice", cast.pod(name, "h100")).object
        _must(reading.gated(stored), f"{name} was not held")
    start = reading.held_until(stored)
    left = f" in {(start - datetime.now(UTC)).total_seconds():.0f} s" if start else ""
    scene.tell(f"They are stored and held by a scheduling gate, and say why: the window opens{left}.")
    scene.pace.read()


def fast_path(scene: Scene) -> None:
    began = time.monotonic()
    stored = scene.submit("bob", cast.pod("trainer-0", "h100", 2)).object
    took = (time.monotonic() - began) * 1000
    _must(reading.admitted(stored) and not reading.gated(stored), "trainer-0 was not let in at CREATE")
    scene.running("bob", "trainer-0")
    scene.tell(f"It left admission with its toleration: CREATE took {took:.0f} ms, and the scheduler did the rest.")
    scene.pace.read()


def full(scene: Scene) -> None:
    scene.submit("bob", cast.pod("trainer-1", "h100", 2))
    scene.running("bob", "trainer-1")
    stored = scene.submit("bob", cast.pod("trainer-2", "h100")).object
    _must(reading.held(stored)[0] == "ReservationFull", f"trainer-2 waits for {reading.held(stored)}")
    scene.tell("trainer-2 waits, and burdens neither the scheduler nor an autoscaler: ReservationFull.")
    scene.pace.read()


def next_in(scene: Scene) -> None:
    scene.complete("bob", "trainer-0")
    scene.running("bob", "trainer-2")
    scene.record.finished_then.append(("bob/trainer-0", "bob/trainer-2"))
    done, opening = scene.trail("bob", "trainer-0").done(), scene.trail("bob", "trainer-2").opening
    if done and opening:
        took = milliseconds(done.completed, opening.completed)
        scene.tell(f"trainer-0 finished; {took:.0f} ms later trainer-2 was let in.")
    scene.pace.read()


def opens(scene: Scene) -> None:
    _released(scene, "alice", "sprint", ("notebook-0", "notebook-1"))
    scene.pace.read()


def denied(scene: Scene) -> None:
    answer = scene.book("carol", "huge", "h100", 12, timedelta(minutes=10))
    _must(reading.phase(answer) == "Denied", f"huge is {reading.phase(answer)}")
    scene.record.denied = "carol/huge"
    text = reading.message(answer)
    found = SLOT.search(text)
    if found:
        slot = datetime.fromisoformat(f"{found[1]}T{found[2]}+00:00")
        manifest = cast.reservation("huge-later", "h100", 12, timedelta(minutes=10), slot)
        dry = scene.user("carol").create(manifest, namespace="carol", dry_run=True)
        scene.record.slot_warnings = dry.warnings
    scene.tell(
        "The denial ends with the first slot that fits. A dry run at that instant has nothing to say against it."
    )
    scene.pace.read(5)


def typo(scene: Scene) -> None:
    scene.record.typo = scene.submit("carol", cast.pod("oops", "hl00")).warnings
    scene.tell("kubectl prints at once what was probably meant, and which classes there are.")
    scene.pace.read()
    scene.user("carol").delete("pods", "oops", "carol")


def outage(scene: Scene) -> None:
    began = datetime.now(UTC)
    with scene.house.webhooks_away(scene.breaks):
        stored = scene.submit("bob", cast.pod("trainer-3", "h100")).object
        _must(reading.held(stored)[0] == "Undecided", f"trainer-3 waits for {reading.held(stored)}")
        scene.running("bob", "trainer-3")
        scene.refused("carol", cast.forged("intruder-0", "h100"))
        scene.record.outage = (began, datetime.now(UTC))
        opening = scene.trail("bob", "trainer-3").opening
        if opening:
            took = milliseconds(scene.trail("bob", "trainer-3").created.completed, opening.completed)
            scene.tell(
                f"Nobody was stopped and no door stood open: the API server held the pod itself, {took:.0f} ms later "
                "the reconciler let it in."
            )
        scene.pace.read()


def forgery(scene: Scene) -> None:
    text = scene.refused("carol", cast.forged("intruder-1", "h100"))
    _must(bool(text), "a forged toleration was accepted")
    running = scene.pod("bob", "trainer-1", reading.admitted, "let in")
    token = reading.notes(running)["gpures.dev/claim"]
    _must(bool(scene.refused("bob", cast.copied("copy-0", "h100", token))), "a copied claim was accepted")
    scene.tell("Both are refused with a sentence. Only an open reservation adds the toleration and mints a claim.")
    scene.pace.read()


def leader_dies(scene: Scene) -> None:
    start = scene.pace.instant(least=TAKEOVER_S, paced=2)
    scene.book("carol", "lab", "a100", 2, LONG, start)
    for name in ("run-0", "run-1"):
        scene.submit("carol", cast.pod(name, "a100"))
    leader = scene.house.leader()
    _must(bool(leader), "nobody leads")
    scene.record.killed_leader, scene.record.killed_at = leader, time.monotonic()
    scene.record.killed_wall = datetime.now(UTC)
    scene.house.kill_leader(leader, scene.breaks)
    _released(scene, "carol", "lab", ("run-0", "run-1"))
    scene.house.replace_leader(leader, scene.breaks)
    scene.pace.read()


def _released(scene: Scene, user: str, reservation: str, names: tuple[str, ...]) -> None:
    window = reading.granted_window(scene.reservation(user, reservation, lambda _: True, "there"))
    if window is None:
        message = f"{reservation} has no promise"
        raise StoryError(message)
    scene.reach(window[0])
    scene.running(user, *names)
    openings = [scene.trail(user, name).opening for name in names]
    late = max(milliseconds(window[0], event.completed) for event in openings if event)
    scene.tell(f"The window opened at {window[0]:%H:%M:%S}; {late:.0f} ms later both pods were released, then placed.")


def _must(condition: bool, otherwise: str) -> None:
    if not condition:
        raise StoryError(otherwise)


STEPS = (
    Step("Two users book", "alice books 2 h100 for later, bob 4 from now on. Their namespace is the holder.", book),
    Step("Pods that come too early", "alice submits two ordinary pods before her window opens.", too_early),
    Step("Let in at CREATE", "bob's window is open and has room: his pod needs no controller to be let in.", fast_path),
    Step("Full", "bob's next pod takes the rest of his 4 h100, so one more has to wait.", full),
    Step("A finished pod lets the next in", "trainer-0 ends, its units go to the pod that waits.", next_in),
    Step("The window opens", "alice's pods start by themselves, at the instant, and never before.", opens),
    Step("No room for a booking", "carol wants 12 h100 now, but only 6 are not promised.", denied),
    Step("A typo", "carol writes hl00 for h100 in the label of her pod.", typo),
    Step("Every webhook is killed", "bob submits a pod, carol brings a forged toleration, and nobody answers.", outage),
    Step("Forgeries", "carol brings the toleration again, and bob copies the claim of another pod.", forgery),
    Step("The leader is killed", "carol's window opens soon; until then the standby has to take over.", leader_dies),
)
