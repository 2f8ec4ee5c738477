"""How much memory a device has, so that what can't fit is refused before it is asked for."""

from pathlib import Path

import jax


def capacity() -> int | None:
    """Returns the bytes of a device that this process may use, or None where nobody says."""
    device = jax.local_devices()[0]
    statistics = device.memory_stats() or {}
    if "bytes_limit" in statistics:
        return statistics["bytes_limit"]
    if device.platform != "cpu":
        return None
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = dict(line.split(":", 1) for line in lines)
    return int(sizes["MemTotal"].split()[0]) * 1024 // jax.local_device_count()


def gibibytes(size: int) -> str:
    """Returns bytes as text."""
    return f"{size / 2**30:.2f} GiB"
