"""What a compiled step needs of a device's memory, and what the device has."""

from pathlib import Path
from typing import Any, NamedTuple

import jax

from bahdanau_jax.errors import InputError


class StepMemory(NamedTuple):
    """Bytes on each device during one training step, as XLA has planned them."""

    arguments: int  # parameters, optimiser state and batch
    temporary: int  # everything between: activations, gradients
    results: int  # what the step returns beyond what it writes over its arguments

    @property
    def total(self) -> int:
        """All of it."""
        return self.arguments + self.temporary + self.results


def planned(compiled: jax.stages.Compiled) -> StepMemory:
    """Returns what XLA has planned for a compiled function whose first argument is donated."""
    plan: Any = compiled.memory_analysis()
    return StepMemory(
        plan.argument_size_in_bytes,
        plan.temp_size_in_bytes,
        plan.output_size_in_bytes - plan.alias_size_in_bytes,
    )


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


def check_fits(memory: StepMemory, shape: tuple[int, int, int], limit: int | None) -> None:
    """Refuses a step that can't fit.

    Args:
      memory: what the step needs.
      shape: (B, S, T) of its batch, over all devices.
      limit: what a device has, in bytes; None: unknown, and nothing is refused.

    Raises:
      InputError: it needs more; says how much, and what to change.
    """
    if limit is None or memory.total <= limit:
        return
    rows, source, target = shape
    raise InputError(
        f"a step on {rows} sentences of {source} and {target} tokens needs "
        f"{gibibytes(memory.total)} on a device that has {gibibytes(limit)}; set "
        "train.accumulate=2 or higher (the same batches, in parts), or lower train.batch_size or "
        "data.max_length"
    )


def gibibytes(size: int) -> str:
    """Returns bytes as text."""
    return f"{size / 2**30:.2f} GiB"
