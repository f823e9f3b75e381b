"""Runs a module as `python -m` does, and profiles it from SIGUSR1 to SIGUSR2: without its start, which imports much.

    python under_profile.py OUT MODULE

Counted is CPU time of the main thread, which runs the event loop: a process that waits spends nothing.
"""

import cProfile
import runpy
import signal
import sys
import time
from pathlib import Path


def main() -> None:
    out, module = sys.argv[1:]
    profile = cProfile.Profile(time.thread_time)

    def stop(_number: int, _frame: object) -> None:
        profile.disable()
        profile.dump_stats(f"{out}.part")
        # A rename is atomic: whoever waits for the file finds it whole.
        Path(f"{out}.part").replace(out)

    signal.signal(signal.SIGUSR1, lambda _number, _frame: profile.enable())
    signal.signal(signal.SIGUSR2, stop)
    sys.argv = [module]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
