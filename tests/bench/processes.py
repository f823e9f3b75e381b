"""CPU time, memory and cores of other processes, read from the kernel."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path


def cpu_s(pid: int) -> float:
    """Seconds of CPU that all threads of a process have used, user and system, to the nanosecond.

    The kernel's clock of another process: (~pid << 3) | CPUCLOCK_SCHED, as clock_getcpuclockid(3) makes it.
    """
    return time.clock_gettime((~pid << 3) | 2)


def rss_mb(pid: int) -> float:
    """Resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def pin(pid: int, cpu: int) -> None:
    """Keep every thread of a process on one core, where there is more than one."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        return
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(task.name), {cpus[cpu % len(cpus)]})
