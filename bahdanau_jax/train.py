"""The training loop: evaluate, save, read a batch, step, and write the figures of the step before.

The step is compiled once for each padded shape, the largest first, before training begins.
"""

import concurrent.futures
import dataclasses
import math
import time
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from bahdanau_jax import parallel, report, results, workdir
from bahdanau_jax.batching import Batch, Batcher
from bahdanau_jax.checkpoint import Checkpoints
from bahdanau_jax.config import Config
from bahdanau_jax.data import Data, EvaluationSplit, open_data
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation import Evaluator
from bahdanau_jax.optimizer import make_optimizer, make_schedule
from bahdanau_jax.progress import Progress, say
from bahdanau_jax.run import TrainedRun, make_model
from bahdanau_jax.state import TrainState, create_state
from bahdanau_jax.step import TrainSums, make_train_step

HIGHER_IS_BETTER = ("bleu", "chrf", "exact_match")


@dataclasses.dataclass
class LoopState:
    """What the loop knows beside the arrays; saved with them as JSON.

    Attributes:
      best: best value of `train.metric` so far; None before the first evaluation.
      best_step: updates at that evaluation.
      without_better: evaluations since then.
      evaluated: updates at the last evaluation, so that a resumed run doesn't repeat it.
      loss, nll, tokens: sums since the last line of training figures.
    """

    best: float | None = None
    best_step: int = 0
    without_better: int = 0
    evaluated: int = 0
    loss: float = 0.0
    nll: float = 0.0
    tokens: float = 0.0

    def judge(self, value: float, step: int, higher_is_better: bool) -> bool:
        """Notes an evaluation's value; returns whether it is the best so far."""
        sign = -1.0 if higher_is_better else 1.0
        better = self.best is None or sign * value < sign * self.best
        if better:
            self.best, self.best_step = value, step
        self.without_better = 0 if better else self.without_better + 1
        self.evaluated = step
        return better


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
        self._pending: tuple[int, TrainSums, tuple[int, int, int]] | None = None

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
            concurrent.futures.ThreadPoolExecutor(1) as worker,
            report.MetricsWriter(self.directory, resumed) as writer,
            Progress(self.total) as progress,
        ):
            compiled = self._compile(state, step, worker)
            # The order is frozen: a checkpoint holds an evaluation's verdict, the batch's number
            # is the step's, and the host never waits for the step that it has just launched.
            while True:
                last = step == self.total
                better = False
                if step > self.loop.evaluated and (last or step % train.eval_every == 0):
                    self._write_pending(writer, progress)
                    better = self._evaluate(state, dev, step, writer, progress)
                patience_ends = 0 < train.patience <= self.loop.without_better
                due = last or patience_ends or better or step % train.checkpoint_every == 0
                if due and step > (resumed or 0):
                    self._write_pending(writer, progress)
                    checkpoints.save(step, state, dataclasses.asdict(self.loop), better)
                if last or patience_ends:
                    break
                batch = self.batcher.batch(step)
                rows, source = batch.source.shape
                shape = (rows, source, batch.target.shape[1])
                state, sums = compiled[shape].result()(state, parallel.shard(batch))
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

    def _compile(
        self, state: TrainState, start: int, worker: concurrent.futures.Executor
    ) -> dict[tuple[int, int, int], concurrent.futures.Future[jax.stages.Compiled]]:
        """Starts to compile the step for every shape; returns once the largest is ready.

        The largest comes first, so that a run that can't fit fails at once; the others follow in
        the order in which training meets them, while it goes on with those that are ready.
        """
        function = parallel.on_devices(
            make_train_step(self.model, self.optimizer, self.config.train),
            outputs=None,
            donate=True,
        )
        abstract = jax.tree.map(
            lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), state
        )

        def compile_shape(rows: int, source: int, target: int) -> jax.stages.Compiled:
            batch = Batch(np.zeros((rows, source), np.int32), np.zeros((rows, target), np.int32))
            return function.lower(abstract, parallel.shard(batch)).compile()

        shapes = self.batcher.shapes
        say(f"compiling {len(shapes)} padded shapes, the largest first: {shapes[0]}")
        ahead = range(start, start + self.batcher.batches_per_epoch)
        order = dict.fromkeys([shapes[0], *map(self.batcher.shape, ahead), *shapes])
        compiled = {shape: worker.submit(compile_shape, *shape) for shape in order}
        compiled[shapes[0]].result()
        return compiled

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


def train(config: Config, directory: Path, overrides: Sequence[str]) -> None:
    """Trains, or goes on training, and evaluates the best checkpoint on every test split.

    Args:
      config: validated.
      directory: the workdir; made if absent.
      overrides: the fields given by flags, for the manifest.

    Raises:
      InputError: the data, the workdir or a checkpoint can't be used.
    """
    with workdir.lock(directory):
        workdir.check_config(directory, config)
        data = open_data(config.data, directory / "vocabulary", say)
        if "dev" not in data.corpus.splits:
            raise InputError(
                f"{config.data.source} has no development split to choose the best checkpoint by; "
                f"its splits: {', '.join(data.corpus.splits)}"
            )
        trainer = Trainer(config, directory, data)
        dev = data.evaluation_split("dev")
        tests = [data.evaluation_split(n) for n in data.corpus.splits if n.startswith("test")]
        # All that the user gave has been read, so that a mistake in it claims no workdir.
        workdir.write_config(directory, config)
        if not (directory / "vocabulary" / "vocabulary.json").exists():
            data.vocabularies.save(directory / "vocabulary")
        trainer.describe()
        with Checkpoints(directory / "checkpoints") as checkpoints:
            report.write_manifest(
                directory,
                config,
                overrides=overrides,
                fingerprints=data.fingerprints(),
                step=checkpoints.latest_step() or 0,
            )
            state = trainer.train(checkpoints, dev)
            checkpoints.wait()
            best = checkpoints.restore_params(state.params, "best")
        run = TrainedRun(config, best.step, best.state, trainer.evaluator)
        results.conclude(run, directory, [dev, *tests])
