"""Those whose training steps are compared: this project, and the same model in PyTorch."""

import time
from typing import Any, Protocol

import jax
import numpy as np

from bahdanau_jax.config import Config
from bahdanau_jax.data.batching import Batch
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.runtime import devices
from bahdanau_jax.training.compilation import planned
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import create_state, make_train_step

ENDLESS = 10**6  # steps for the schedule, so that its first rates are those of a long run


class Contender(Protocol):
    """A model in training."""

    def prepare(self, batch: Batch) -> float:
        """Gets ready for batches of this shape; returns the seconds that it took."""
        ...

    def step(self, batch: Batch) -> float:
        """Takes a training step; returns the mean loss in nats, which the host waits for."""
        ...


class Ours:
    """The training step as `train.py` compiles and calls it."""

    def __init__(self, config: Config, source_size: int, target_size: int):
        model = Seq2Seq(config.model, source_size, target_size)
        optimizer = make_optimizer(config.train, ENDLESS)
        self.state = devices.replicate(
            jax.jit(lambda: create_state(model, optimizer, config.seed))()
        )
        self._function: Any = devices.on_devices(
            make_train_step(model, optimizer, config.train), outputs=None, donate=True
        )
        self._compiled: dict[tuple, jax.stages.Compiled] = {}

    def prepare(self, batch: Batch) -> float:
        """Compiles the step."""
        began = time.perf_counter()
        lowered = self._function.lower(self.state, devices.shard(batch))
        self._compiled[shape_of(batch)] = lowered.compile()
        return time.perf_counter() - began

    def step(self, batch: Batch) -> float:
        """Takes a step; returns the mean loss."""
        step = self._compiled[shape_of(batch)]
        self.state, sums = step(self.state, devices.shard(batch))
        return float(sums.loss) / float(sums.tokens)

    def planned_memory(self, batch: Batch) -> int:
        """Returns the bytes that XLA plans for a step: state, batch and everything between."""
        return planned(self._compiled[shape_of(batch)]).total


class InPyTorch:
    """`torch_seq2seq.Training`, from the same parameters where they are given."""

    def __init__(
        self,
        config: Config,
        source_size: int,
        target_size: int,
        threads: int,
        params: dict | None = None,
    ):
        # Imported here, so that a process that measures only ours has no PyTorch in its memory.
        import torch

        from rivals import torch_seq2seq

        torch.set_num_threads(threads)
        self._training = torch_seq2seq.Training(config, source_size, target_size)
        if params is not None:
            self._training.model.load(jax.tree.map(np.asarray, params))

    def prepare(self, batch: Batch) -> float:
        """Does nothing: PyTorch runs what it meets."""
        del batch
        return 0.0

    def step(self, batch: Batch) -> float:
        """Takes a step; returns the mean loss."""
        return self._training.step(batch.source, batch.target)


def shape_of(batch: Batch) -> tuple[int, int, int]:
    """Returns (B, S, T)."""
    return (*batch.source.shape, batch.target.shape[1])
