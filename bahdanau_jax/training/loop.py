"""The loop: evaluate, save, read a batch, step, and write the figures of the step before."""

import contextlib
import dataclasses
import io
import math
import time
from collections.abc import Mapping
from pathlib import Path

import jax

from bahdanau_jax.config import Config
from bahdanau_jax.data.batching import Batcher
from bahdanau_jax.data.pipeline import Data, EvaluationSplit
from bahdanau_jax.evaluation.evaluator import Evaluator
from bahdanau_jax.evaluation.metrics import higher_is_better
from bahdanau_jax.evaluation.trained_run import make_model
from bahdanau_jax.reports import evaluation_report
from bahdanau_jax.runtime import devices, processes
from bahdanau_jax.runtime.signals import Notice, Stopped
from bahdanau_jax.terminal import Progress, counted, say, say_nothing
from bahdanau_jax.training import skipped
from bahdanau_jax.training.compilation import CompiledSteps, Shape
from bahdanau_jax.training.loop_state import LoopState
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.record import StepFigures
from bahdanau_jax.training.saving import Saver
from bahdanau_jax.training.step import TrainState, create_state, make_train_step
from bahdanau_jax.training.warm_start import WarmStart
from bahdanau_jax.workdir import metrics_log
from bahdanau_jax.workdir.checkpoints import Checkpoints


class Trainer:
    """One run of training in one workdir."""

    def __init__(
        self, config: Config, directory: Path, data: Data, origin: WarmStart | None = None
    ):
        """Lays the run out; neither compiles nor computes.

        Args:
          config: validated.
          directory: the workdir, which exists and is locked.
          data: the corpus and the run's vocabularies.
          origin: the run whose parameters a new run begins with; None: random ones.
        """
        self.config, self.directory, self.data, self.origin = config, directory, data, origin
        train = config.train
        self._say = say if processes.is_first() else say_nothing
        self.store = data.training_store(self._say)
        self.batcher = Batcher(
            self.store,
            seed=config.data.seed,
            batch_size=train.batch_size,
            batch_tokens=train.batch_tokens,
            max_length=config.data.max_length,
            shapes=config.data.shapes,
            pool=config.data.pool,
            multiple=jax.device_count() * train.accumulate,
            process_index=jax.process_index(),
            process_count=jax.process_count(),
        )
        self.total = train.steps
        if train.epochs:
            self.total = max(round(train.epochs * self.batcher.batches_per_epoch), 1)
        self.model = make_model(config, data.vocabularies)
        self.optimizer = make_optimizer(train, self.total)
        self.evaluator = Evaluator(self.model, config, data.vocabularies)
        self.loop = LoopState()

    def describe(self) -> None:
        """Says what is going to be trained, on what."""
        batcher, vocabularies = self.batcher, self.data.vocabularies
        abstract = jax.eval_shape(self._create)
        count = sum(math.prod(x.shape) for x in jax.tree.leaves(abstract.params))
        self._say(
            counted(batcher.pairs, "training pair")
            + (
                f"; left out, for data.max_length={self.config.data.max_length}: "
                + counted(batcher.left_out, "longer pair")
                if batcher.left_out
                else ""
            )
        )
        self._say(
            f"vocabularies of {vocabularies.source.size:,} and {vocabularies.target.size:,}; "
            f"{count:,} parameters; {jax.device_count()} device(s) of kind "
            f"{jax.devices()[0].device_kind}"
            + (f" in {processes.count()} processes" if processes.count() > 1 else "")
        )
        self._say(
            f"{counted(self.total, 'step')} of {batcher.batches_per_epoch:,} an epoch; "
            f"{counted(len(batcher.shapes), 'padded shape')}, {batcher.padding_share:.1%} padding"
        )

    def train(self, checkpoints: Checkpoints, dev: EvaluationSplit, notice: Notice) -> TrainState:
        """Runs to the last step, or until patience ends it.

        Args:
          checkpoints: where the run goes on from, and where it saves.
          dev: what it is evaluated on.
          notice: listened to.

        Returns:
          The state after the last step, which is saved.

        Raises:
          RunError: saves fail, or gradients aren't finite.
          Stopped: there was a notice; the state is saved.
        """
        state, resumed = self._start(checkpoints)
        step, loop, train = int(state.step), self.loop, self.config.train
        began, stop, vote = time.monotonic(), False, processes.Vote()
        with (
            self._compile(state, step) as compiled,
            self._open_metrics(resumed) as writer,
            Progress(self.total, None if processes.is_first() else io.StringIO()) as progress,
        ):
            figures = StepFigures(train, self.total, loop, writer, progress, self.keep_batch)
            saver = Saver(checkpoints, writer, loop, step, progress.message)
            compiled.wait_for_first()
            with notice.held():
                # The order is frozen: a checkpoint holds an evaluation's verdict, the batch's
                # number is the step's, and the host never waits for the step just launched.
                while True:
                    last = step >= self.total
                    better = False
                    if step > loop.evaluated and (last or step % train.eval_every == 0):
                        figures.write()
                        try:
                            better = self.evaluate(state, dev, step, writer, progress, notice)
                        except Stopped:
                            stop = True
                    stop = vote.any(notice.received) or stop
                    ends = last or self.patience_ends() or stop
                    if ends or better or step % train.checkpoint_every == 0:
                        figures.write()
                        saver.save(step, state, better)
                    if ends:
                        break
                    batch = self.batcher.batch(step)
                    shape = self.batcher.shape(step)
                    try:
                        # Several processes have to agree on the step after which they stop.
                        with notice.raising() if processes.count() == 1 else notice.held():
                            run_step = compiled[shape]
                    except Stopped:
                        continue
                    state, sums = run_step(state, devices.shard(batch, across_processes=True))
                    step += 1
                    figures.note(step, sums, shape)
                saver.finish()
        if stop:
            where = f"at step {step:,}, which is saved" if step else "before a step"
            self._say(f"stopped {where}")
            processes.leave_together()
            raise notice.stopped()
        if step < self.total:
            words = f"no better {train.metric} in {train.patience} evaluations"
            self._say(f"{words}: stopped at {step:,}")
        self._say(f"trained for {time.monotonic() - began:,.0f} s")
        return state

    def template(self) -> TrainState:
        """Returns the shapes of the state, with their placement."""
        return devices.abstract(jax.eval_shape(self._create), across_processes=True)

    def _create(self) -> TrainState:
        return create_state(self.model, self.optimizer, self.config.seed)

    def _start(self, checkpoints: Checkpoints) -> tuple[TrainState, int | None]:
        """Returns the state to begin with, and the step that it was saved at, None if new."""
        if checkpoints.latest_step() is None:
            placement = devices.replicated(across_processes=True)
            state = jax.jit(self._create, out_shardings=placement)()
            if self.origin is not None:
                state = dataclasses.replace(state, params=self.origin.params(state.params))
            return state, None
        restored = checkpoints.restore(self.template(), "latest")
        self.loop = LoopState(**restored.progress)
        self._say(f"resuming from step {restored.step:,}")
        return restored.state, restored.step

    def patience_ends(self) -> bool:
        """Returns whether the evaluations have got no better for too long."""
        return 0 < self.config.train.patience <= self.loop.without_better

    def shapes_ahead(self, start: int) -> list[Shape]:
        """Returns the shapes that are going to occur, and says so; none where nothing is left.

        Args:
          start: updates done.

        Returns:
          The largest first, the others in the order in which training meets them.
        """
        if start >= self.total:
            return []
        shapes = [largest := self.batcher.shapes[0]]
        end = min(self.total, start + self.batcher.batches_per_epoch)
        shapes += map(self.batcher.shape, range(start, end))
        if end < self.total:
            shapes += self.batcher.shapes
        count = counted(len(set(shapes)), "padded shape")
        self._say(f"compiling {count}, the largest first: {largest}")
        return shapes

    def _compile(self, state: TrainState, start: int) -> CompiledSteps:
        """Starts to compile the step for the shapes that are going to occur."""
        shapes = [] if self.patience_ends() else self.shapes_ahead(start)
        step = make_train_step(self.model, self.optimizer, self.config.train)
        step = devices.on_devices(step, donate=True, across_processes=True)
        return CompiledSteps(step, state, shapes)

    def keep_batch(self, batch: int, figures: Mapping[str, float]) -> Path:
        """Saves the sentences of a batch whose update was skipped; returns where they lie."""
        if not processes.is_first():
            return self.directory / skipped.DIRECTORY
        pairs = self.batcher.indices(batch)
        return skipped.write(
            self.directory, batch, pairs, self.store, self.data.vocabularies, figures
        )

    def _open_metrics(self, resumed: int | None) -> metrics_log.Metrics:
        if not processes.is_first():
            return metrics_log.Metrics()
        return metrics_log.MetricsWriter(self.directory, resumed, resume_lines=self.loop.lines)

    def evaluate(
        self,
        state: TrainState,
        dev: EvaluationSplit,
        step: int,
        writer: metrics_log.Metrics,
        progress: Progress,
        notice: Notice,
    ) -> bool:
        """Evaluates the development split; returns whether it is the best so far.

        Args:
          state: with the parameters.
          dev: the split.
          step: updates done.
          writer: where the figures go.
          progress: what the user sees.
          notice: listened to.

        Raises:
          Stopped: there was a notice; the evaluation is left for the run that goes on.
        """
        figures = None
        if processes.is_first():
            with contextlib.suppress(Stopped), notice.raising():
                params = devices.replicate(state.params)
                figures, _ = self.evaluator.evaluate(params, dev)
        figures = processes.from_first(figures)
        if figures is None:
            raise notice.stopped()
        writer.write(step, {f"{dev.name}/{name}": value for name, value in figures.items()})
        metric = self.config.train.metric
        value = figures[metric]
        assert isinstance(value, float)
        better = self.loop.judge(value, step, higher_is_better(metric))
        progress.message(
            f"step {step:,}  {dev.name}: {evaluation_report.one_line(figures)}"
            + ("  (best so far)" if better else "")
        )
        return better
