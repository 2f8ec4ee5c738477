"""The training step compiled for every padded shape, beside the training; the memory it needs."""

import concurrent.futures
import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax

from bahdanau_jax.config import Config, ModelConfig
from bahdanau_jax.data.batching import blank_batch
from bahdanau_jax.errors import InputError
from bahdanau_jax.runtime import devices
from bahdanau_jax.runtime.memory import capacity, gibibytes
from bahdanau_jax.terminal import say

Shape = tuple[int, int, int]  # (B, S, T) of a batch, over all processes


class CompiledSteps:
    """Compiles in a thread of its own, in the order given. A context manager.

    The first shape should be the largest, so that a run that can't fit fails at once; the others
    best follow in the order in which training meets them.
    """

    def __init__(self, step: Callable, state: Any, shapes: Iterable[Shape], linked: bool = False):
        """Starts to compile.

        Args:
          step: `(state, batch)` over all devices, as from `devices.on_devices`.
          state: the training state, or its shapes with their placement.
          shapes: of the batches; each is compiled once.
          linked: whether the batches have links.
        """
        abstract = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
        )

        def lower(like: Any, rows: int, source: int, target: int) -> jax.stages.Lowered:
            mine = rows // jax.process_count()
            batch = blank_batch(mine, source, target, linked)
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


def check_fits(memory: StepMemory, shape: Shape, limit: int | None) -> None:
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


def check_reason(state: Any, params: Any, activations: int) -> None:
    """Refuses sizes that can't fit whatever the compiler does, before it is asked.

    It may abort the process at arrays beyond its own integers.

    Args:
      state: the training state of all members, or its shapes.
      params: its parameters, which have gradients of their size.
      activations: bytes that a device keeps of a step, at least.

    Raises:
      InputError: a device has less memory; says how much is needed, and what to change.
    """
    limit = capacity()
    needed = _size(state) + _size(params)
    if limit is not None and needed > limit:
        raise InputError(
            f"parameters, gradients and the optimiser's state need {gibibytes(needed)} on a "
            f"device that has {gibibytes(limit)}; lower the sizes in model, or the vocabularies'"
        )
    if limit is not None and needed + activations > limit:
        raise InputError(
            f"a step needs more than {gibibytes(needed + activations)} on a device that has "
            f"{gibibytes(limit)}; set train.accumulate=2 or higher (the same batches, in parts), "
            "or lower train.batch_size or data.max_length"
        )


def check_sizes(state: Any, config: Config, shape: Shape, members: int = 1) -> None:
    """Refuses a configuration that `check_reason` does, at the largest shape of its steps.

    Args:
      state: the training state of one member, or its shapes.
      config: of the run.
      shape: (B, S, T) of the largest batch.
      members: that are trained in one program.
    """
    parts = jax.device_count() * config.train.accumulate
    activations = least_activations(config.model, shape, parts) * members
    check_reason([state] * members, [state.params] * members, activations)


def least_activations(model: ModelConfig, shape: Shape, parts: int) -> int:
    """Returns bytes that a step keeps of annotations and states, at least.

    Args:
      model: the model.
      shape: (B, S, T) of the batch.
      parts: that its rows are divided into: devices times accumulated parts.
    """
    rows, source, target = shape
    units = source * model.annotation_units + target * model.decoder.units
    return rows // parts * units * 2  # of bfloat16


def _size(tree: Any) -> int:
    # Not `leaf.nbytes`, which may overflow; keys of random numbers are small.
    arrays = [x for x in jax.tree.leaves(tree) if jax.numpy.issubdtype(x.dtype, jax.numpy.number)]
    return sum(math.prod(map(int, array.shape)) * array.dtype.itemsize for array in arrays)
