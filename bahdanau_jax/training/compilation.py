"""The training step compiled for every padded shape, ahead of their use and beside the training."""

import concurrent.futures
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from bahdanau_jax.data.batching import Batch
from bahdanau_jax.runtime import devices
from bahdanau_jax.terminal import say
from bahdanau_jax.training.device_memory import capacity, check_fits, gibibytes, planned

Shape = tuple[int, int, int]  # (B, S, T) of a batch, over all processes


class CompiledSteps:
    """Compiles in a thread of its own, in the order given. A context manager.

    The first shape should be the largest, so that a run that can't fit fails at once; the others
    best follow in the order in which training meets them.
    """

    def __init__(self, step: Callable, state: Any, shapes: Iterable[Shape]):
        """Starts to compile.

        Args:
          step: `(state, batch)` over all devices, as from `devices.on_devices`.
          state: the training state, or its shapes with their placement.
          shapes: of the batches; each is compiled once.
        """
        abstract = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
        )

        def lower(like: Any, rows: int, source: int, target: int) -> jax.stages.Lowered:
            mine = rows // jax.process_count()
            batch = Batch(np.zeros((mine, source), np.int32), np.zeros((mine, target), np.int32))
            batch = devices.shard(batch, across_processes=True)
            return step.lower(like, batch)  # type: ignore[attr-defined]

        unique = list(dict.fromkeys(shapes))
        lowered = {}
        if jax.process_count() > 1:
            # Over several processes pmap traces arrays alone, and the first step donates these.
            lowered = {shape: lower(state, *shape) for shape in unique}

        def compile_shape(shape: Shape) -> jax.stages.Compiled:
            return (lowered.pop(shape, None) or lower(abstract, *shape)).compile()

        self._worker = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="compile")
        self._compiled = {shape: self._worker.submit(compile_shape, shape) for shape in unique}

    def __enter__(self) -> "CompiledSteps":
        return self

    def __exit__(self, *_: object) -> None:
        # A shape that nobody will use is not waited for, and the one being compiled can't be
        # stopped: the interpreter waits for it when it ends.
        self._worker.shutdown(wait=False, cancel_futures=True)

    def wait_for_first(self) -> None:
        """Waits until the first shape is compiled, says what it needs, raises what failed in it.

        Raises:
          InputError: a device has less memory than the step needs.
        """
        if self._compiled:
            shape, first = next(iter(self._compiled.items()))
            memory = planned(first.result())
            if jax.process_index() == 0:
                say(f"a step of that shape needs {gibibytes(memory.total)} of a device's memory")
            check_fits(memory, shape, capacity())

    def __getitem__(self, shape: Shape) -> jax.stages.Compiled:
        """Returns the step for a shape; waits until it is compiled, raises what failed in it."""
        return self._compiled[shape].result()
