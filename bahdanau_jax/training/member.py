"""One run of those that are trained together: its configuration, its workdir, its record."""

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from bahdanau_jax.config import Config
from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.errors import RunError
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.reports import evaluation_report
from bahdanau_jax.runtime import processes
from bahdanau_jax.terminal import Progress
from bahdanau_jax.training.compilation import Shape
from bahdanau_jax.training.record import LoopState, StepFigures
from bahdanau_jax.training.saving import Saver
from bahdanau_jax.training.step import TrainState, TrainSums
from bahdanau_jax.workdir import history, manifest, metrics_log
from bahdanau_jax.workdir.checkpoints import Checkpoints, Restored, Which

KeepBatch = Callable[[Path, int, Mapping[str, float]], Path]


@dataclasses.dataclass
class Member:
    """A run, whether it is trained alone or with others in one program.

    Attributes:
      config: validated.
      directory: its workdir; made if absent.
      overrides: the fields given by flags, for the manifest.
      experiment: the Python file that made the configuration, kept with it; None: there is none.
      log: gets the figures that a run prints at its end; None: standard output.
      failed: told why this member can't go on, so that the others do; None: its error ends the
        training.
      record: what its loop knows.
      failure: why it can't go on; empty while it can.
      checkpoints: where it goes on from; set by `open_checkpoints`.
      writer: where its figures go; set by `open`, as `saver` is.
      saver: saves its state.
    """

    config: Config
    directory: Path
    overrides: Sequence[str]
    experiment: Path | None = None
    log: Path | None = None
    failed: Callable[[str], None] | None = None
    record: LoopState = dataclasses.field(default_factory=LoopState)
    failure: str = ""
    checkpoints: Checkpoints = dataclasses.field(init=False)
    writer: metrics_log.Metrics = dataclasses.field(init=False)
    saver: Saver = dataclasses.field(init=False)

    @property
    def active(self) -> bool:
        """Whether it still counts: neither patience nor a failure has ended it."""
        patience_ends = 0 < self.config.train.patience <= self.record.without_better
        return not self.failure and not patience_ends

    def open_checkpoints(self, stack: contextlib.ExitStack) -> None:
        """Opens its checkpoints; `stack` closes them."""
        self.checkpoints = stack.enter_context(
            Checkpoints(
                self.directory / "checkpoints",
                manifest.identify(self.directory),
                self.config.train.keep,
            )
        )

    def restore(self, template: TrainState, which: Which) -> Restored:
        """Reads a checkpoint, and takes the record in it for its own; see `Checkpoints.restore`."""
        restored = self.checkpoints.restore(template, which)
        self.record = LoopState.from_saved(restored.progress)
        lines, digest = self.record.lines, self.record.lines_digest
        with processes.together():
            history.check_best(self.directory, self.record.best_step, self.checkpoints)
            history.check_metrics(self.directory, restored.step, lines, digest)
        return restored

    def open(
        self,
        stack: contextlib.ExitStack,
        resumed: int | None,
        total: int,
        progress: Progress,
        keep_batch: KeepBatch,
    ) -> None:
        """Opens its metrics.jsonl, behind the checkpoint that it goes on from.

        Args:
          stack: closes it.
          resumed: step of that checkpoint; None for a new run.
          total: updates of the whole run.
          progress: what the user sees.
          keep_batch: keeps a batch that gave no finite gradient: told the workdir, the batch's
            number and its figures, it returns where the batch lies.
        """
        writer = metrics_log.Metrics()
        if processes.is_first():
            writer = metrics_log.MetricsWriter(
                self.directory, resumed, resume_lines=self.record.lines
            )
        self.writer = stack.enter_context(writer)
        keep = functools.partial(keep_batch, self.directory)
        self._figures = StepFigures(
            self.config.train, total, self.record, self.writer, progress, keep
        )
        self.saver = Saver(
            self.checkpoints, self.writer, self.record, resumed or 0, progress.message
        )

    def note(self, step: int, sums: TrainSums, shape: Shape) -> None:
        """Takes the figures of a step.

        Args:
          step: updates done, this one counted.
          sums: its own, on the host.
          shape: of the batch.

        Raises:
          RunError: too many steps in a row gave no finite gradient, and there is nobody to tell.
        """
        try:
            self._figures.write(step, sums, shape)
        except RunError as error:
            self._fail(error)

    def conclude(self, run: TrainedRun, splits: list[EvaluationSplit]) -> None:
        """Evaluates what came of it; see `evaluation_report.conclude`.

        Args:
          run: with its best parameters.
          splits: the development split, then the test splits.

        Raises:
          RunError: its figures would take the place of a better checkpoint's, which is damaged, and
            there is nobody to tell.
        """
        try:
            history.check_result(self.directory, self.record.best_step, run.step)
        except RunError as error:
            return self._fail(error)
        with contextlib.ExitStack() as stack:
            if self.log is not None:
                log = stack.enter_context(self.log.open("a", encoding="utf-8"))
                stack.enter_context(contextlib.redirect_stdout(log))
            evaluation_report.conclude(run, self.directory, splits)

    def _fail(self, error: RunError) -> None:
        if self.failed is None:
            raise error
        self.failure = str(error)
        self.failed(self.failure)
