"""The page docs/reference/faults.md: one row a fault."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.faults.runner import Outcome
from tests.faults.table import FAULTS, Fault

PAGE: Final = Path(__file__).resolve().parents[2] / "docs" / "reference" / "faults.md"
COLUMNS: Final = ("", "Fault", "Staged as", "Held", "Recovered in", "Worst canary", "Lost", "Run (UTC)")
ROW: Final = r"^\| {name} .*\|$"
NOTE: Final = r"^- {name}: .*$"
HEAD: Final = """\
# Faults

What becomes of the product when something breaks. Written by `make faults` from `tests/faults/table.py`; do not edit.

Each fault is staged on a real control plane with two webhooks and two reconcilers of this tree, each behind a fault
proxy. Meanwhile, and until all is well again, two tenants create pods, windows open and close every few seconds, a
canary pod that has nothing to do with GPUs is created every 100 ms, and so is a forged one. An auditor that shares no
code with the product replays every stored version of every pod and reservation:

- I1: no pod is let in, or bound to a reserved node, but on a claim that stands in a reservation whose window is open.
- I2: the claims of a reservation, and the pods bound under it, never need more units than were granted; what is
  granted never exceeds what is there.
- I3: a pod is never let in before its window opens, and in time once it is open and has room.
- I4: the canary is never refused. While the API server or etcd is down nobody's pods can be created; that is counted
  as lost below.
- I5: no forged pod is ever stored, and no tenant takes a gate off.
- I8: nobody but its owner ends a pod inside its window, and no claim of a living pod is dropped there.
- I14: within 10 s after the end of the fault a new window opens in time, a new pod comes in at once, and no pod waits
  beside room, without anybody's help (20 s after the time was in doubt, 30 s after an older etcd came back).

*Recovered in* is the longer of two waits: from the end of the fault (or the start of a window booked afterwards, if
that is later) until its pod was let in, and from the creation of a new pod until it was. *Worst canary* is the slowest
create that succeeded. Times depend on the machine and on what else it does: bounds are stretched by its load per CPU,
which ends the notes of each fault. A star marks the faults that `make test` runs as well, for a shorter time. Each row
has the run that it is from: `make faults ARGS="F15 F18 --page"` renews two of them.

"""


@dataclass(frozen=True)
class Run:
    """When, on which commit (and whether that was all), and how long its faults lasted."""

    when: str
    commit: str
    length: str

    def __str__(self) -> str:
        return f"{self.when}, {self.commit}, {self.length}"


def write(outcomes: Mapping[str, Outcome], run: Run) -> None:
    """A fault that was not asked for keeps the row and the note of its newest run."""
    before = PAGE.read_text() if PAGE.exists() else ""
    PAGE.write_text(page(outcomes, run, before))


def page(outcomes: Mapping[str, Outcome], run: Run, before: str = "") -> str:
    """The whole page; `before` is what it was."""
    rows = {fault.id: _kept(ROW, fault.id, before) for fault in FAULTS if fault.stage}
    notes = {fault.id: _kept(NOTE, fault.id, before) for fault in FAULTS if fault.stage}
    for name, outcome in outcomes.items():
        rows[name] = _row([*_cells(outcome.fault, outcome), str(run)])
        notes[name] = _note(outcome)
    table = [rows.get(fault.id) or _row([*_cells(fault, None), ""]) for fault in FAULTS]
    ran = [row for row in table if "| not run |" not in row]
    held = sum("| yes |" in row for row in ran)
    told = (
        f"{len(ran)} faults of {len(FAULTS)} run, {held} held. {os.cpu_count()} CPUs, "
        f"{platform.system()} {platform.machine()}.\n\n"
    )
    head = [_row(COLUMNS), _row(["---"] * len(COLUMNS))]
    return (
        HEAD + told + "\n".join([*head, *table]) + "\n\n## Notes\n\n" + "\n".join(filter(None, notes.values())) + "\n"
    )


def _kept(pattern: str, name: str, before: str) -> str:
    found = re.search(pattern.format(name=name), before, re.MULTILINE)
    return found[0] if found else ""


def _cells(fault: Fault, outcome: Outcome | None) -> Sequence[str]:
    name = f"{fault.id}{' ★' if fault.starred else ''}"
    if outcome is None:
        return (name, fault.sentence, fault.how, "not run", "", "", fault.not_run or "not asked for")
    recovered = "not" if outcome.recovered_s is None else f"{outcome.recovered_s:.1f} s"
    return (
        name,
        fault.sentence,
        fault.how,
        "yes" if outcome.held else "**no**",
        recovered,
        f"{outcome.worst_canary_s * 1000:.0f} ms",
        "; ".join(outcome.lost) or "nothing",
    )


def _note(outcome: Outcome) -> str:
    told = [
        f"{outcome.canaries} canaries, {outcome.attacks} attacks in {outcome.took_s:.0f} s",
        *outcome.notes,
        *(f"**{violation}**" for violation in outcome.violations[:5]),
        f"load per CPU {outcome.load:.1f}",
    ]
    return f"- {outcome.fault.id}: {'; '.join(told)}".replace("\n", " ")


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|').replace(chr(10), ' ') for cell in cells)} |"
