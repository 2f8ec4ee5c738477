"""The figures of the training steps: summed, written, and watched for what isn't finite.

A step's figures are read one step late, so that the host never waits for the step that it has just
launched.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import numpy as np

from bahdanau_jax.config import TrainConfig
from bahdanau_jax.errors import RunError
from bahdanau_jax.runtime import devices
from bahdanau_jax.terminal import Progress
from bahdanau_jax.training.compilation import Shape
from bahdanau_jax.training.loop_state import LoopState
from bahdanau_jax.training.optimizer import make_schedule
from bahdanau_jax.training.step import TrainSums
from bahdanau_jax.workdir.metrics_log import Metrics


class StepFigures:
    """Reads what the steps return."""

    def __init__(
        self,
        train: TrainConfig,
        total: int,
        loop: LoopState,
        writer: Metrics,
        progress: Progress,
        keep_batch: Callable[[int, Mapping[str, float]], Path],
    ):
        """Has nothing to read yet.

        Args:
          train: how often to write, and when to give up.
          total: updates of the whole run.
          loop: holds the sums, so that they are saved.
          writer: where lines go.
          progress: what the user sees.
          keep_batch: told the number of a batch that gave no finite gradient, and its figures;
            returns where it lies.
        """
        self._train, self._total, self._loop = train, total, loop
        self._writer, self._progress, self._keep_batch = writer, progress, keep_batch
        self._schedule = make_schedule(train, total)
        self._pending: tuple[int, TrainSums, Shape] | None = None

    def note(self, step: int, sums: TrainSums, shape: Shape) -> None:
        """Takes what a step returns, and writes the figures of the one before.

        Args:
          step: updates done, this one counted.
          sums: the step's, still being computed.
          shape: of its batch.
        """
        self.write()
        self._pending = (step, sums, shape)

    def write(self) -> None:
        """Writes the figures of the last step noted; waits until the device has them.

        Raises:
          RunError: too many steps in a row gave no finite gradient.
        """
        if self._pending is None:
            return
        (step, sums, (rows, _, target)), self._pending = self._pending, None
        loop, sums = self._loop, jax.device_get(sums)
        loss, nll, tokens = float(sums.loss), float(sums.nll), float(sums.tokens)
        self._progress.update(step, loss / tokens, int(tokens), rows * target)
        if sums.finite:
            loop.loss, loop.nll = loop.loss + loss, loop.nll + nll
            loop.tokens += tokens
            loop.skipped_in_a_row = 0
        else:
            self._skip(step, loss, float(sums.gradient_norm))
        if step % self._train.log_every and step != self._total:
            return
        rate = self._schedule(max(step - 1 - loop.skipped, 0))
        means = {}
        if loop.tokens:
            means = {
                "train/loss": loop.loss / loop.tokens,
                "train/nll_per_token": loop.nll / loop.tokens,
            }
        self._writer.write(
            step,
            {
                **means,
                "train/gradient_norm": float(sums.gradient_norm),
                "train/learning_rate": np.asarray(rate).item(),
                "train/skipped": loop.skipped,
                "speed/target_tokens_per_second": self._progress.tokens_per_second,
                "speed/step_seconds": self._progress.step_seconds,
                "speed/peak_memory_bytes": devices.peak_memory(),
            },
        )
        loop.loss = loop.nll = loop.tokens = 0.0

    def _skip(self, step: int, loss: float, norm: float) -> None:
        loop, most = self._loop, self._train.max_skipped
        loop.skipped, loop.skipped_in_a_row = loop.skipped + 1, loop.skipped_in_a_row + 1
        path = self._keep_batch(step - 1, {"loss": loss, "gradient_norm": norm})
        self._progress.message(
            f"step {step:,}: the loss is {loss:.4g} and its gradient's norm {norm:.4g}; no update "
            f"is made, and the batch lies in {path}"
        )
        if loop.skipped_in_a_row >= most:
            raise RunError(
                f"{most} steps in a row (the last is {step:,}) gave no finite gradient, so the run "
                f"stops; their batches lie in {path.parent}. Look at their sentences, "
                "or lower train.learning_rate: the same command goes on from the last checkpoint"
            )
