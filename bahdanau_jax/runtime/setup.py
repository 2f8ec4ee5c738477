"""What a process sets once, before JAX does anything: heap, compilation cache, flags of XLA."""

import ctypes
import os
import sys
from pathlib import Path

import platformdirs

# From glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -2, -4, -8


def configure(*, deterministic: bool = False) -> None:
    """Sets up this process for computing with JAX, before it has touched a device.

    Args:
      deterministic: on GPUs, sums without atomics, and no choice between algorithms by how long
        they took just now: slower programs whose results are the same at each run.
    """
    # Here, since `cache_directory` is for the room `data` too, which imports no JAX.
    import jax

    keep_freed_memory()
    if deterministic:
        chosen = "--xla_gpu_deterministic_ops=true --xla_gpu_autotune_level=0"
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {chosen}".strip()
    if jax.config.values["jax_compilation_cache_dir"] is None:
        jax.config.update("jax_compilation_cache_dir", str(cache_directory() / "xla"))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.5)


def cache_directory() -> Path:
    """Returns where what can be made again is kept, as the system's conventions say."""
    return Path(platformdirs.user_cache_dir("bahdanau_jax"))


def keep_freed_memory() -> None:
    """Lets later allocations reuse what earlier ones freed; does nothing without glibc.

    There only for speed, on Linux with a CPU. A training step on CPU asks for its temporary memory
    anew each time (65 MB at the default experiment's sizes). glibc hands such blocks back to the
    kernel at once, and getting them again costs a page fault for every 4 KiB: 7,600 faults and
    30 ms of system time a step, and none of either with these settings.
    """
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
