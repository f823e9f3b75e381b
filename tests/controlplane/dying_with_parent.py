"""Runs a program that dies when its parent dies, however that happens.

Executed as a script, by path, with python -I -S. The program takes the place of this script, so
its process id is the one that the parent knows.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Arguments: the parent's process id, then the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent may have gone before the line above took effect.
        if os.getppid() != parent:
            sys.exit(1)
    os.execvpe(command[0], command, os.environ)  # noqa: S606 (no shell is wanted)


main()
