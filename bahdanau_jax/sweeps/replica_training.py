"""Training replicas: one loop and one program, and for each replica a workdir like any other.

All replicas save at the same steps, so that they go on together; one that has ended early, by
patience or because its loss isn't finite, is computed on and saved, but no longer looked at.
"""

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import jax

from bahdanau_jax.data.pipeline import Data, EvaluationSplit, open_data
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError, RunError
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.reports import evaluation_report
from bahdanau_jax.runtime import devices, processes
from bahdanau_jax.runtime.signals import Notice, Stopped
from bahdanau_jax.sweeps import replicas, sweep
from bahdanau_jax.sweeps.executors import LOG
from bahdanau_jax.sweeps.grid import Cell
from bahdanau_jax.terminal import Progress, say
from bahdanau_jax.training.compilation import CompiledSteps, Shape
from bahdanau_jax.training.loop import Trainer
from bahdanau_jax.training.loop_state import LoopState
from bahdanau_jax.training.record import StepFigures
from bahdanau_jax.training.saving import Saver
from bahdanau_jax.training.step import TrainState, TrainSums
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import manifest, metrics_log
from bahdanau_jax.workdir.checkpoints import Checkpoints


class Member:
    """One replica: its cell, its workdir, and all that its own run would have.

    Attributes:
      failure: why it can't go on; empty while it can.
    """

    def __init__(self, cell: Cell, directory: Path, data: Data):
        """Lays it out.

        Args:
          cell: its configuration.
          directory: its workdir, which exists and is locked.
          data: that all replicas share.
        """
        self.cell, self.directory = cell, directory
        self.trainer = Trainer(cell.config, directory, data)
        self.checkpoints = Checkpoints(directory / "checkpoints")
        self.failure = ""

    @property
    def loop(self) -> LoopState:
        """What its loop knows."""
        return self.trainer.loop

    @property
    def active(self) -> bool:
        """Whether it still counts: neither patience nor a failure has ended it."""
        return not self.failure and not self.trainer.patience_ends()

    def open(self, stack: contextlib.ExitStack, resumed: int | None, progress: Progress) -> None:
        """Opens its metrics.jsonl, behind the checkpoint that it goes on from."""
        trainer, loop = self.trainer, self.loop
        self.writer = stack.enter_context(
            metrics_log.MetricsWriter(self.directory, resumed, resume_lines=loop.lines)
        )
        self._figures = StepFigures(
            self.cell.config.train, trainer.total, loop, self.writer, progress, trainer.keep_batch
        )
        self._saver = Saver(self.checkpoints, self.writer, loop, resumed or 0, progress.message)

    def note(self, step: int, sums: TrainSums, shape: Shape) -> None:
        """Takes the figures of a step, which the device has by now."""
        if self.active:
            with self._failing():
                self._figures.note(step, sums, shape)
                self._figures.write()

    def save(self, step: int, state: TrainState, better: bool) -> None:
        """Starts to save its part of the states."""
        self._saver.save(step, state, better)

    def finish(self) -> None:
        """Waits for the last save."""
        self._saver.finish()

    def conclude(self, splits: list[EvaluationSplit]) -> None:
        """Evaluates its best checkpoint; what a run prints goes into its log."""
        best = self.checkpoints.restore_params(self.trainer.template().params, "best")
        run = TrainedRun(self.cell.config, best.step, best.state, self.trainer.evaluator)
        with (
            (self.directory / LOG).open("a", encoding="utf-8") as log,
            contextlib.redirect_stdout(log),
        ):
            evaluation_report.conclude(run, self.directory, splits)

    @contextlib.contextmanager
    def _failing(self):
        """Notes that it can't go on, so that the others do."""
        try:
            yield
        except RunError as error:
            self.failure = str(error)
            sweep.write_failure(self.directory, 1, self.failure)
            say(f"{self.cell.name} FAILED: {error}")


def train_replicas(directory: Path, cells: Sequence[Cell], overrides: Sequence[str]) -> list[str]:
    """Trains every cell, or goes on training, in one program; evaluates each one's best checkpoint.

    Args:
      directory: of the sweep; each cell's workdir is below it.
      cells: valid; they differ in `replicas.FIELDS` alone.
      overrides: the fields given by flags, for the manifests.

    Returns:
      The names of the cells that failed.

    Raises:
      InputError: the cells can't share a program, or the data or a workdir can't be used.
      RunError: saves fail.
      Stopped: a signal asked for it; what there was is saved.
    """
    if processes.count() > 1:
        raise InputError("--replicas runs in one process; leave out --distributed")
    replicas.check([cell.config for cell in cells])
    with contextlib.ExitStack() as stack:
        notice = stack.enter_context(Notice())
        for place in (directory, *(directory / cell.name for cell in cells)):
            stack.enter_context(workdir.lock(place))
        for cell in cells:
            workdir.check_config(directory / cell.name, cell.config)
        config = cells[0].config
        saved = Vocabularies.load_saved(directory / cells[0].name / "vocabulary")
        data = open_data(config.data, saved, say)
        splits = data.training_splits()
        found = data.fingerprints("train", *(split.name for split in splits))
        for cell in cells:
            manifest.check_fingerprints(directory / cell.name, found)
        members = [Member(cell, directory / cell.name, data) for cell in cells]
        for member in members[1:]:
            # What it reads of a configuration is the same in all: one compiled program serves them.
            member.trainer.evaluator = members[0].trainer.evaluator
        for member in members:
            stack.enter_context(member.checkpoints)
            _claim(member, data, found, overrides)
        sweep.list_cells(directory, cells, [])
        members[0].trainer.describe()
        say(f"{len(members)} replicas of this in one program")
        _loop(members, splits[0], notice)
        for member in members:
            if not member.failure:
                member.conclude(splits)
    return [member.cell.name for member in members if member.failure]


def _claim(member: Member, data: Data, found: dict[str, str], overrides: Sequence[str]) -> None:
    """Writes what says whose workdir it is; all that the user gave has been read by now."""
    config, directory = member.cell.config, member.directory
    (directory / sweep.FAILED).unlink(missing_ok=True)
    workdir.write_config(directory, config)
    if not (directory / "vocabulary" / "vocabulary.json").exists():
        data.vocabularies.save(directory / "vocabulary")
    manifest.write_manifest(
        directory,
        config,
        overrides=[*overrides, *(f"{path}={value}" for path, value in member.cell.values.items())],
        fingerprints=found,
        step=member.checkpoints.latest_step() or 0,
    )


def _loop(members: Sequence[Member], dev: EvaluationSplit, notice: Notice) -> None:
    """Runs to the last step, or until patience or failure has ended every replica."""
    trainer, train = members[0].trainer, members[0].cell.config.train
    states, resumed = _start(members)
    step, pending = resumed or 0, None
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        compiled = stack.enter_context(_compile(members, states, step))
        progress = stack.enter_context(Progress(trainer.total))
        for member in members:
            member.open(stack, resumed, progress)
        compiled.wait_for_first()
        # As in Trainer: a checkpoint holds an evaluation's verdict, the batch's number is the
        # step's, and the host never waits for the step just launched.
        with notice.held():
            while True:
                last = step >= trainer.total
                better = [False] * len(members)
                for number, member in enumerate(members):
                    due = last or step % train.eval_every == 0
                    if due and member.active and step > member.loop.evaluated:
                        pending = _settle(members, pending)
                        state = replicas.replica(states, number)
                        with contextlib.suppress(Stopped):
                            better[number] = member.trainer.evaluate(
                                state, dev, step, member.writer, progress, notice
                            )
                ends = last or notice.received or not any(member.active for member in members)
                if ends or any(better) or step % train.checkpoint_every == 0:
                    pending = _settle(members, pending)
                    for number, member in enumerate(members):
                        member.save(step, replicas.replica(states, number), better[number])
                if ends:
                    break
                batch, shape = trainer.batcher.batch(step), trainer.batcher.shape(step)
                states, sums = compiled[shape](states, devices.shard(batch))
                step += 1
                _settle(members, pending)
                pending = (step, sums, shape)
            for member in members:
                member.finish()
    if notice.received:
        say(f"stopped at step {step:,}, which is saved" if step else "stopped before a step")
        raise notice.stopped()
    say(f"trained {len(members)} replicas for {time.monotonic() - began:,.0f} s")


def _settle(members: Sequence[Member], pending: tuple[int, TrainSums, Shape] | None) -> None:
    """Hands every replica its figures of a step; waits until the device has them."""
    if pending is None:
        return
    step, sums, shape = pending
    sums = jax.device_get(sums)
    for number, member in enumerate(members):
        member.note(step, replicas.replica(sums, number), shape)


def _start(members: Sequence[Member]) -> tuple[TrainState, int | None]:
    """Returns the states to begin with, and the step that all were saved at, None if new."""
    trainer, configs = members[0].trainer, [member.cell.config for member in members]
    saved = set.intersection(*(set(member.checkpoints.steps()) for member in members))
    if not saved:

        def create() -> TrainState:
            return replicas.create_states(trainer.model, configs, trainer.total)

        return jax.jit(create, out_shardings=devices.replicated())(), None
    step, states = max(saved), []
    for member in members:
        restored = member.checkpoints.restore(member.trainer.template(), step)
        member.trainer.loop = LoopState(**restored.progress)
        states.append(restored.state)
    say(f"resuming from step {step:,}")
    return devices.replicate(replicas.stack(states)), step


def _compile(members: Sequence[Member], states: TrainState, start: int) -> CompiledSteps:
    """Starts to compile the step of all replicas for the shapes that are going to occur."""
    trainer = members[0].trainer
    shapes = trainer.shapes_ahead(start)
    configs = [member.cell.config for member in members]
    step = replicas.make_replica_step(trainer.model, configs, trainer.total)
    return CompiledSteps(devices.on_devices(step, donate=True), states, shapes)
