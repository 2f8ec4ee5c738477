"""The memory of this process, as Linux counts it."""

import ctypes
import re
from collections.abc import Callable
from pathlib import Path

MIB = 2**20


def resident() -> int:
    """Returns the bytes that this process has in memory now."""
    return _read("VmRSS")


def peak_during(function: Callable[[], object]) -> int:
    """Returns the most bytes that the process had in memory at once while `function` ran.

    What was freed before is given back to the system first, where the C library can do that.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from here
    function()
    return _read("VmHWM")


def _read(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    found = re.search(rf"{field}:\s*(\d+) kB", status)
    assert found is not None, f"no {field} in /proc/self/status"
    return int(found[1]) * 1024
