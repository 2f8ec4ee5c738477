"""The C library's heap, told to keep what was freed; there only for speed, on Linux with a CPU.

A training step on CPU asks for its temporary memory anew each time (65 MB at the default
experiment's sizes). glibc hands such blocks back to the kernel at once, and getting them again
costs a page fault for every 4 KiB: 7,600 faults and 30 ms of system time a step, and none of either
with the settings below.
"""

import ctypes
import sys

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8


def keep_freed_memory() -> None:
    """Lets later allocations reuse what earlier ones freed; does nothing without glibc."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):  # another C library, as musl
        return
    mallopt(_M_ARENA_MAX, 1)  # an arena of a thread gives its memory back whatever the rest says
    mallopt(_M_MMAP_MAX, 0)  # large blocks come from the heap, not from mmap
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    mallopt(_M_TOP_PAD, 2**26)
