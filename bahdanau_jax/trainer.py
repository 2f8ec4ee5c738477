"""The loop: evaluate, save, read a batch, step, and write the figures of the step before."""

import dataclasses
import math
import time
from pathlib import Path

import jax
import numpy as np

from bahdanau_jax import parallel, report, results
from bahdanau_jax.batching import Batcher
from bahdanau_jax.checkpoint import Checkpoints
from bahdanau_jax.compilation import CompiledSteps, Shape
from bahdanau_jax.config import Config
from bahdanau_jax.data import Data, EvaluationSplit
from bahdanau_jax.evaluation import Evaluator
from bahdanau_jax.loop_state import LoopState
from bahdanau_jax.optimizer import make_optimizer, make_schedule
from bahdanau_jax.progress import Progress, say
from bahdanau_jax.run import make_model
from bahdanau_jax.state import TrainState, create_state
from bahdanau_jax.step import TrainSums, make_train_step

HIGHER_IS_BETTER = ("bleu", "chrf", "exact_match")


class Trainer:
    """One run of training in one workdir."""

    def __init__(self, config: Config, directory: Path, data: Data):
        """Lays the run out; neither compiles nor computes.

        Args:
          config: validated.
          directory: the workdir, which exists and is locked.
          data: the corpus and the run's vocabularies.
        """
        self.config, self.directory, self.data = config, directory, data
        train = config.train
        self.batcher = Batcher(
            data.training_store(say),
            seed=config.data.seed,
            batch_size=train.batch_size,
            batch_tokens=train.batch_tokens,
            max_length=config.data.max_length,
            shapes=config.data.shapes,
            pool=config.data.pool,
            multiple=jax.device_count(),
        )
        self.total = train.steps
        if train.epochs:
            self.total = max(round(train.epochs * self.batcher.batches_per_epoch), 1)
        self.model = make_model(config, data.vocabularies)
        self.optimizer = make_optimizer(train, self.total)
        self.evaluator = Evaluator(self.model, config, data.vocabularies)
        self.loop = LoopState()
        self._schedule = make_schedule(train, self.total)
        self._pending: tuple[int, TrainSums, Shape] | None = None

    def describe(self) -> None:
        """Says what is going to be trained, on what."""
        batcher, vocabularies = self.batcher, self.data.vocabularies
        abstract = jax.eval_shape(self._create)
        count = sum(math.prod(x.shape) for x in jax.tree.leaves(abstract.params))
        say(
            f"{batcher.pairs:,} training pairs"
            + (
                f" ({batcher.left_out:,} longer than data.max_length="
                f"{self.config.data.max_length} are left out)"
                if batcher.left_out
                else ""
            )
        )
        say(
            f"vocabularies of {vocabularies.source.size:,} and {vocabularies.target.size:,}; "
            f"{count:,} parameters; {jax.device_count()} device(s) of kind "
            f"{jax.devices()[0].device_kind}"
        )
        say(
            f"{self.total:,} steps of {batcher.batches_per_epoch:,} an epoch; "
            f"{len(batcher.shapes)} padded shapes, {batcher.padding_share:.1%} padding"
        )

    def train(self, checkpoints: Checkpoints, dev: EvaluationSplit) -> TrainState:
        """Runs to the last step, or until patience ends it.

        Args:
          checkpoints: where the run goes on from, and where it saves.
          dev: what it is evaluated on.

        Returns:
          The state after the last step.
        """
        train = self.config.train
        state, resumed = self._start(checkpoints)
        step = int(state.step)
        began = time.monotonic()
        with (
            self._compile(state, step) as compiled,
            report.MetricsWriter(self.directory, resumed) as writer,
            Progress(self.total) as progress,
        ):
            compiled.wait_for_first()
            # The order is frozen: a checkpoint holds an evaluation's verdict, the batch's number
            # is the step's, and the host never waits for the step that it has just launched.
            while True:
                last = step >= self.total
                better = False
                if step > self.loop.evaluated and (last or step % train.eval_every == 0):
                    self._write_pending(writer, progress)
                    better = self._evaluate(state, dev, step, writer, progress)
                ends = last or self._patience_ends()
                due = ends or better or step % train.checkpoint_every == 0
                if due and step > (resumed or 0):
                    self._write_pending(writer, progress)
                    checkpoints.save(step, state, dataclasses.asdict(self.loop), better)
                if ends:
                    break
                batch = self.batcher.batch(step)
                rows, source = batch.source.shape
                shape = (rows, source, batch.target.shape[1])
                state, sums = compiled[shape](state, parallel.shard(batch))
                self._write_pending(writer, progress)
                step += 1
                self._pending = (step, sums, shape)
        if step < self.total:
            say(f"no better {train.metric} in {train.patience} evaluations: stopped at {step:,}")
        say(f"trained for {time.monotonic() - began:,.0f} s")
        return state

    def _create(self) -> TrainState:
        return create_state(self.model, self.optimizer, self.config.seed)

    def _start(self, checkpoints: Checkpoints) -> tuple[TrainState, int | None]:
        """Returns the state to begin with, and the step that it was saved at, None if new."""
        if checkpoints.latest_step() is None:
            state = jax.jit(self._create, out_shardings=parallel.replicated())()
            return state, None
        template = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=parallel.replicated()),
            jax.eval_shape(self._create),
        )
        restored = checkpoints.restore(template, "latest")
        self.loop = LoopState(**restored.progress)
        say(f"resuming from step {restored.step:,}")
        return restored.state, restored.step

    def _patience_ends(self) -> bool:
        return 0 < self.config.train.patience <= self.loop.without_better

    def _compile(self, state: TrainState, start: int) -> CompiledSteps:
        """Starts to compile the step for the shapes that are going to occur."""
        shapes: list[Shape] = []
        if start < self.total and not self._patience_ends():
            # The largest first; the others in the order in which training meets them.
            shapes = [largest := self.batcher.shapes[0]]
            end = min(self.total, start + self.batcher.batches_per_epoch)
            shapes += map(self.batcher.shape, range(start, end))
            if end < self.total:
                shapes += self.batcher.shapes
            say(f"compiling {len(set(shapes))} padded shapes, the largest first: {largest}")
        step = make_train_step(self.model, self.optimizer, self.config.train)
        step = parallel.on_devices(step, outputs=None, donate=True)
        return CompiledSteps(step, state, shapes)

    def _write_pending(self, writer: report.MetricsWriter, progress: Progress) -> None:
        """Notes the figures of the step before; waits until the device has them."""
        if self._pending is None:
            return
        step, sums, (rows, _, target) = self._pending
        self._pending = None
        loop = self.loop
        loss, nll, tokens = float(sums.loss), float(sums.nll), float(sums.tokens)
        loop.loss, loop.nll, loop.tokens = loop.loss + loss, loop.nll + nll, loop.tokens + tokens
        progress.update(step, loss / tokens, int(tokens), rows * target)
        if step % self.config.train.log_every and step != self.total:
            return
        writer.write(
            step,
            {
                "train/loss": loop.loss / loop.tokens,
                "train/nll_per_token": loop.nll / loop.tokens,
                "train/gradient_norm": float(sums.gradient_norm),
                "train/learning_rate": np.asarray(self._schedule(step - 1)).item(),
                "speed/target_tokens_per_second": progress.tokens_per_second,
                "speed/step_seconds": progress.step_seconds,
                "speed/peak_memory_bytes": parallel.peak_memory(),
            },
        )
        loop.loss = loop.nll = loop.tokens = 0.0

    def _evaluate(
        self,
        state: TrainState,
        dev: EvaluationSplit,
        step: int,
        writer: report.MetricsWriter,
        progress: Progress,
    ) -> bool:
        """Evaluates the development split; returns whether it is the best so far."""
        figures, _ = self.evaluator.evaluate(state.params, dev)
        writer.write(step, {f"{dev.name}/{name}": value for name, value in figures.items()})
        metric = self.config.train.metric
        value = figures[metric]
        assert isinstance(value, float)
        better = self.loop.judge(value, step, metric in HIGHER_IS_BETTER)
        progress.message(
            f"step {step:,}  {dev.name}: {results.one_line(figures)}"
            + ("  (best so far)" if better else "")
        )
        return better
