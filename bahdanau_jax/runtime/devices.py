"""Devices: where arrays lie, and the one place that maps a function over all of them."""

import resource
import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS = "devices"  # the name that `psum` and `axis_index` use inside a mapped function


def replicated(*, across_processes: bool = False) -> NamedSharding:
    """Returns the placement of arrays that every device of this process, or of all, holds whole."""
    return NamedSharding(_mesh(across_processes), PartitionSpec())


def replicate(tree: Any) -> Any:
    """Places a tree of arrays whole on every device of this process.

    Args:
      tree: arrays, also those that every device of a run over several processes holds whole.
    """
    if jax.process_count() > 1:
        tree = jax.tree.map(
            lambda x: x.addressable_data(0) if isinstance(x, jax.Array) else x, tree
        )
    return jax.device_put(tree, replicated())


def abstract(tree: Any, *, across_processes: bool = False) -> Any:
    """Returns the shapes of a tree's arrays, placed as `replicated` says: a template of them."""
    placement = replicated(across_processes=across_processes)
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=placement), tree)


def shard(tree: Any, *, across_processes: bool = False) -> Any:
    """Splits the rows of a batch over the devices.

    Args:
      tree: NumPy arrays, the rows of a batch, `[B, …]`; B is a multiple of the number of devices.
      across_processes: the batch is for the devices of all processes, and these are this one's
        rows of it, `[B / processes, …]`.

    Returns:
      Global arrays `[D, B / D, …]`, one leading index a device.
    """
    placement = NamedSharding(_mesh(across_processes), PartitionSpec(AXIS))
    devices = jax.local_device_count()

    def place(rows: np.ndarray) -> jax.Array:
        split = rows.reshape(devices, rows.shape[0] // devices, *rows.shape[1:])
        return jax.make_array_from_process_local_data(placement, split)

    return jax.tree.map(place, tree)


def peak_memory() -> int:
    """Returns the most memory in use so far, in bytes: of a device, or on a CPU of the process."""
    used = [device.memory_stats() for device in jax.local_devices()]
    if all(stats and "peak_bytes_in_use" in stats for stats in used):
        return max(stats["peak_bytes_in_use"] for stats in used if stats)
    unit = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def on_devices(
    function: Callable,
    *,
    outputs: int | None = None,
    donate: bool = False,
    across_processes: bool = False,
) -> Callable[..., Any]:
    """Maps `function(state, batch)` over the devices.

    Args:
      function: sees the whole state and one device's rows; it may use `AXIS` in collectives.
      outputs: None where every device returns the same; 0 where rows are to be stacked.
      donate: the state's memory may be reused for the result.
      across_processes: over the devices of all processes, not of this one alone.

    Returns:
      A function of a replicated state and a batch that `shard` placed.
    """
    return jax.pmap(
        function,
        axis_name=AXIS,
        in_axes=(None, 0),
        out_axes=outputs,
        donate_argnums=(0,) if donate else (),
        devices=_devices(across_processes),
    )


def _mesh(across_processes: bool) -> Mesh:
    return Mesh(np.asarray(_devices(across_processes)), (AXIS,))


def _devices(across_processes: bool) -> list[Any]:
    """Returns the devices such that those of a process follow one another, as its rows do."""
    devices = jax.devices() if across_processes else jax.local_devices()
    return sorted(devices, key=lambda device: (device.process_index, device.id))
