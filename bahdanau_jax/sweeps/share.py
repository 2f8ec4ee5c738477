"""Runs a command with a share of the machine, and ends it when its parent ends.

    python share.py CORES COMMAND…        CORES: as 0,1; empty for all

A process of its own, because the parent may have threads by now and couldn't fork safely.
"""

import contextlib
import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def main(cores: str, command: list[str]) -> None:
    """Becomes the command; never returns."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    with contextlib.suppress(AttributeError, OSError):
        # Linux: a sweep that is killed outright leaves no cell behind that trains on.
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
