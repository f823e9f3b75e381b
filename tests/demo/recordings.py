"""RECORD=docs/recordings: draws three moments of a run into one SVG that shows them in turn, for the README."""

from __future__ import annotations

import io
import os
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from tests.demo import view
from tests.demo.model import Snapshot

MOMENTS = ("Two users book", "Pods that come too early", "The window opens")
WIDTH, HEIGHT = 100, 28
EACH_S = 5
# Rich's own frame loads fonts from a public server; a picture in a README should load nothing.
FRAME = """<svg class="frame" style="animation-delay: {{delay}}s" viewBox="0 0 {width} {height}">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, monospace; font-size: {char_height}px; }}
.{unique_id}-matrix {{ line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: ui-sans-serif, Arial, sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>"""
WHOLE = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">
<style>
.frame {{ visibility: hidden; animation: shown {period}s steps(1) infinite; }}
.frame:first-of-type {{ visibility: visible; }}
@media (prefers-reduced-motion: reduce) {{ .frame {{ animation: none; }} }}
@keyframes shown {{ 0% {{ visibility: visible; }} {share}% {{ visibility: hidden; }} 100% {{ visibility: hidden; }} }}
</style>
{frames}
</svg>
"""


@dataclass(eq=False)
class Recordings:
    """Keeps the moments that are asked for; without a folder none."""

    folder: Path | None = None
    taken: list[Snapshot] = field(default_factory=list)

    @classmethod
    def from_environment(cls) -> Recordings:
        folder = os.environ.get("RECORD", "")
        return cls(Path(folder) if folder else None)

    def take(self, title: str, snapshot: Snapshot) -> None:
        if self.folder is not None and title in MOMENTS:
            self.taken.append(snapshot)

    def write(self) -> None:
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "demo.svg").write_text(animated(self.taken))


def animated(snapshots: list[Snapshot]) -> str:
    """Return one SVG that shows the snapshots in turn."""
    frames = [_frame(snapshot, f"f{index}") for index, snapshot in enumerate(snapshots)]
    size = frames[0].partition('viewBox="0 0 ')[2].partition('"')[0].split()
    delayed = [frame.replace("{delay}", str(index * EACH_S)) for index, frame in enumerate(frames)]
    return WHOLE.format(
        width=size[0],
        height=size[1],
        label="; ".join(f"{found.told.title}: {found.told.sentence}" for found in snapshots).replace('"', "&quot;"),
        period=EACH_S * len(frames),
        share=round(100 / len(frames), 2),
        frames="\n".join(delayed),
    )


def _frame(snapshot: Snapshot, unique_id: str) -> str:
    console = Console(record=True, width=WIDTH, height=HEIGHT, file=io.StringIO(), force_terminal=True)
    console.print(view.draw(snapshot, WIDTH, HEIGHT))
    return console.export_svg(title="make demo", code_format=FRAME, unique_id=unique_id)
