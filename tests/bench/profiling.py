"""Where a process of ours spends its time: the same process again under cProfile, for what missed its target.

cProfile slows small functions down, so it says where the time goes, never how much of it there is.
"""

from __future__ import annotations

import io
import pstats
import signal
from collections.abc import Callable
from pathlib import Path

from tests.controlplane.polling import until
from tests.controlplane.product import Product, Replica

PROFILER = Path(__file__).with_name("under_profile.py")
TOP = 45
WRITTEN_S = 30.0


def profiled(product: Product, replica: Replica, report: Path, work: Callable[[], object]) -> str:
    """Run the work while the replica is profiled, write the report, and return its name."""
    child, raw = replica.child, report.with_suffix(".pstats")
    plain = list(child.command)
    at = plain.index("-m")
    child.terminate()
    child.command = [*plain[:at], str(PROFILER), str(raw), *plain[at + 1 :]]
    try:
        child.start()
        product.wait_ready()
        child.signal(signal.SIGUSR1)
        work()
        child.signal(signal.SIGUSR2)
        until(raw.exists, WRITTEN_S, f"profile of {child.name}")
    finally:
        child.terminate()
        child.command = plain
        child.start()
        product.wait_ready()
    report.write_text(readable(raw))
    return report.name


def readable(raw: Path) -> str:
    """By own time, then by time with callees."""
    text = io.StringIO()
    stats = pstats.Stats(str(raw), stream=text)
    stats.sort_stats("tottime").print_stats(TOP)
    stats.sort_stats("cumulative").print_stats(TOP)
    return text.getvalue().replace(f"{PROFILER.parents[2]}/", "")
