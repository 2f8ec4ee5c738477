"""The loop: evaluate, save, read a batch, step, and write the figures of the step before.

It trains members: one run, or several in one compiled program that share their batches. All members
save at the same steps, so that they go on together. One that has ended early, by patience or
because its loss isn't finite, is computed on and saved, but no longer looked at.
"""

import contextlib
import dataclasses
import functools
import io
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from bahdanau_jax.allowed import MOST
from bahdanau_jax.config import Config
from bahdanau_jax.data.batching import Batcher
from bahdanau_jax.data.pipeline import Data, EvaluationSplit
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.evaluator import Evaluator
from bahdanau_jax.evaluation.metrics import higher_is_better
from bahdanau_jax.evaluation.trained_run import make_model
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.reports import evaluation_report
from bahdanau_jax.runtime import devices, processes
from bahdanau_jax.runtime.signals import Notice, Stopped
from bahdanau_jax.terminal import Progress, counted, say, say_nothing
from bahdanau_jax.training.compilation import CompiledSteps, Shape, check_sizes
from bahdanau_jax.training.member import Member
from bahdanau_jax.training.optimizer import make_optimizer, with_plateau_rate
from bahdanau_jax.training.record import SKIPPED, write_skipped
from bahdanau_jax.training.step import TrainState, TrainSums, create_state, make_train_step
from bahdanau_jax.workdir.checkpoints import Restored


class Program(NamedTuple):
    """What is computed for all members at once; `States` holds every member's state.

    Attributes:
      create: returns the `States` before the first update.
      step: the per-device function `(States, batch) -> (States, sums)`.
      join: makes `States`, or a part of them, of every member's.
      part: returns one member's part of `States` or sums, given its number.
    """

    create: Callable[[], Any]
    step: Callable[[Any, Any], tuple[Any, TrainSums]]
    join: Callable[[Sequence[Any]], Any]
    part: Callable[[Any, int], Any]


MakeProgram = Callable[[Seq2Seq, Sequence[Config], int], Program]


def single_program(model: Seq2Seq, configs: Sequence[Config], steps: int) -> Program:
    """Returns the program of one run alone, whose states are its state.

    Args:
      model: the model.
      configs: of the one member.
      steps: length of the whole run, for the schedule.
    """
    (config,) = configs
    optimizer = make_optimizer(config.train, steps)
    return Program(
        create=lambda: create_state(model, optimizer, config.seed, config.train.average),
        step=make_train_step(model, optimizer, config.train),
        join=lambda parts: parts[0],
        part=lambda states, _: states,
    )


class _Pending(NamedTuple):
    """A step that has been launched, and whose figures nobody has read yet."""

    step: int  # updates done, this one counted
    sums: TrainSums  # of every member; still being computed
    shape: Shape  # of its batch


class Trainer:
    """What the members share, and the loop that trains them."""

    def __init__(
        self,
        members: Sequence[Member],
        data: Data,
        make_program: MakeProgram,
        first_params: Callable[[Any], Any] | None = None,
    ):
        """Lays the training out; neither compiles nor computes.

        Args:
          members: at least one; their configurations differ only in what the program can tell
            apart. Their workdirs exist and are locked.
          data: the corpus and the vocabularies.
          make_program: makes the program of a model, the members' configurations, and the length
            of the run in steps.
          first_params: returns the parameters of a new run, given their shapes and placement;
            None: random ones, by each member's seed.
        """
        config = members[0].config
        self.members, self.data, self._first_params = members, data, first_params
        self._say = say if processes.is_first() else say_nothing
        self.store = data.training_store(self._say)
        self.batcher = Batcher(
            self.store,
            seed=config.data.seed,
            batch_size=config.train.batch_size,
            batch_tokens=config.train.batch_tokens,
            max_length=config.data.max_length,
            shapes=config.data.shapes,
            pool=config.data.pool,
            links=data.training_links(config.data, self.store, self._say),
            multiple=jax.device_count() * config.train.accumulate,
            process_index=jax.process_index(),
            process_count=jax.process_count(),
        )
        self.total = config.train.steps
        if config.train.epochs:
            self.total = max(round(config.train.epochs * self.batcher.batches_per_epoch), 1)
        self.model = make_model(config, data.vocabularies)
        self.evaluator = Evaluator(self.model, config, data.vocabularies)
        if self.total >= MOST:
            raise InputError(
                f"train.epochs={config.train.epochs:g} makes more than {MOST:,} steps; lower it"
            )
        self.program = make_program(self.model, [m.config for m in members], self.total)
        check_sizes(self.template(), config, self.batcher.shapes[0], len(members))
        self._pending: _Pending | None = None
        self._restored: list[Restored] = []

    def describe(self) -> None:
        """Says what is going to be trained, on what."""
        batcher, vocabularies = self.batcher, self.data.vocabularies
        count = sum(math.prod(x.shape) for x in jax.tree.leaves(self.template().params))
        self._say(
            counted(batcher.pairs, "training pair")
            + (
                f"; left out, for data.max_length={self.members[0].config.data.max_length}: "
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
        if len(self.members) > 1:
            self._say(f"{len(self.members)} replicas of this in one program")

    def template(self) -> TrainState:
        """Returns the shapes of one member's state, with their placement."""
        return devices.abstract(self._shapes, across_processes=True)

    @functools.cached_property
    def _shapes(self) -> Any:
        return jax.eval_shape(lambda: self.program.part(self.program.create(), 0))

    def restore(self) -> int | None:
        """Reads the checkpoints that the members go on from; returns their step, None if new.

        Raises:
          InputError: one can't be read, or what was written beside it is gone.
        """
        step = saved_step(self.members)
        if step is None:
            return None
        # One run may fall back on an older checkpoint; several need one that all of them have.
        which = "latest" if len(self.members) == 1 else step
        self._restored = [member.restore(self.template(), which) for member in self.members]
        return self._restored[0].step

    def train(self, dev: EvaluationSplit, notice: Notice) -> None:
        """Runs to the last step, or until patience or a failure has ended every member.

        Members that go on have to be restored before.

        Args:
          dev: what the members are evaluated on.
          notice: listened to.

        Raises:
          RunError: saves fail, or gradients aren't finite.
          Stopped: there was a notice; the states are saved.
        """
        members, train = self.members, self.members[0].config.train
        states, resumed = self._start()
        self._plateau_rates = [member.record.plateau_rate for member in members]
        step = resumed or 0
        began, stop, vote = time.monotonic(), False, processes.Vote()
        with contextlib.ExitStack() as stack:
            compiled = stack.enter_context(self._compile(states, step))
            progress = stack.enter_context(
                Progress(self.total, None if processes.is_first() else io.StringIO())
            )
            for member in members:
                member.open(stack, resumed, self.total, progress, self._keep_batch)
            compiled.wait_for_first()
            with notice.held():
                # The order is frozen: a checkpoint holds an evaluation's verdict, the batch's
                # number is the step's, and the host never waits for the step just launched.
                while True:
                    last = step >= self.total
                    better = [False] * len(members)
                    if last or step % train.eval_every == 0:
                        for number, member in enumerate(members):
                            if not member.active or step <= member.record.evaluated:
                                continue
                            self._settle()
                            if not member.active:
                                continue
                            params = self.program.part(states.params, number)
                            try:
                                better[number] = self._evaluate(
                                    member, params, dev, step, progress, notice
                                )
                            except Stopped:
                                stop = True
                        states = self._with_plateau_rates(states)
                    stop = vote.any(notice.received) or stop
                    ends = last or stop or not any(member.active for member in members)
                    if ends or any(better) or step % train.checkpoint_every == 0:
                        self._settle()
                        for number, member in enumerate(members):
                            member.saver.save(
                                step, self.program.part(states, number), better[number]
                            )
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
                    states, sums = run_step(states, devices.shard(batch, across_processes=True))
                    step += 1
                    self._settle()
                    self._pending = _Pending(step, sums, shape)
                for member in members:
                    member.saver.finish()
                # With several processes a notice that came after the last vote is one's alone.
                stop = stop or (notice.received and processes.count() == 1)
        if stop:
            where = f"at step {step:,}, which is saved" if step else "before a step"
            self._say(f"stopped {where}")
            processes.leave_together()
            raise notice.stopped()
        if step < self.total and not all(member.failure for member in members):
            words = f"no better {train.metric} in {train.patience} evaluations"
            self._say(f"{words}: stopped at {step:,}")
        whom = f"{len(members)} replicas " if len(members) > 1 else ""
        self._say(f"trained {whom}for {time.monotonic() - began:,.0f} s")

    def _start(self) -> tuple[TrainState, int | None]:
        """Returns the states to begin with, and the step that they were saved at, None if new."""
        program, members = self.program, self.members
        restored, self._restored = self._restored, []
        if not restored:
            placement = devices.replicated(across_processes=True)
            states = jax.jit(program.create, out_shardings=placement)()
            if self._first_params is not None:
                params = self._first_params(self.template().params)
                states = states.beginning_with(program.join([params] * len(members)))
            return states, None
        self._say(f"resuming from step {restored[0].step:,}")
        return program.join([one.state for one in restored]), restored[0].step

    def shapes_ahead(self, start: int) -> list[Shape]:
        """Returns the shapes that are going to occur, and says so; none where nothing is left.

        Args:
          start: updates done.

        Returns:
          The largest first, the others in the order in which training meets them.
        """
        if start >= self.total or not any(member.active for member in self.members):
            return []
        shapes = [largest := self.batcher.shapes[0]]
        end = min(self.total, start + self.batcher.batches_per_epoch)
        shapes += map(self.batcher.shape, range(start, end))
        if end < self.total:
            shapes += self.batcher.shapes
        count = counted(len(set(shapes)), "padded shape")
        self._say(f"compiling {count}, the largest first: {largest}")
        return shapes

    def _compile(self, states: TrainState, start: int) -> CompiledSteps:
        """Starts to compile the step for the shapes that are going to occur."""
        step = devices.on_devices(self.program.step, donate=True, across_processes=True)
        linked = bool(self.members[0].config.data.train_links)
        return CompiledSteps(step, states, self.shapes_ahead(start), linked)

    def _settle(self) -> None:
        """Hands every member its figures of the step before; waits until the device has them."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        sums = jax.device_get(pending.sums)
        for number, member in enumerate(self.members):
            if member.active:
                member.note(pending.step, self.program.part(sums, number), pending.shape)

    def _keep_batch(self, directory: Path, batch: int, figures: Mapping[str, float]) -> Path:
        """Saves the sentences of a batch whose update was skipped; returns where they lie."""
        if not processes.is_first():
            return directory / SKIPPED
        pairs = self.batcher.indices(batch)
        return write_skipped(directory, batch, pairs, self.store, self.data.vocabularies, figures)

    def _with_plateau_rates(self, states: Any) -> Any:
        """Returns the states with the learning rates that evaluations have lowered."""
        rates = [member.record.plateau_rate for member in self.members]
        if rates == self._plateau_rates:
            return states
        self._plateau_rates = rates
        placement = devices.replicated(across_processes=True)
        factors = [jax.device_put(np.float32(rate), placement) for rate in rates]
        opt_state = with_plateau_rate(states.opt_state, self.program.join(factors))
        return dataclasses.replace(states, opt_state=opt_state)

    def _evaluate(
        self,
        member: Member,
        params: dict,
        dev: EvaluationSplit,
        step: int,
        progress: Progress,
        notice: Notice,
    ) -> bool:
        """Evaluates a member on the development split; returns whether it is among its best.

        Args:
          member: whose record and metrics the figures go into.
          params: its parameters.
          dev: the split.
          step: updates done.
          progress: what the user sees.
          notice: listened to.

        Raises:
          Stopped: there was a notice; the evaluation is left for the run that goes on.
        """
        figures = None
        if processes.is_first():
            with contextlib.suppress(Stopped), notice.raising():
                figures, _ = self.evaluator.evaluate(devices.replicate(params), dev)
        figures = processes.from_first(figures)
        if figures is None:
            raise notice.stopped()
        member.writer.write(step, {f"{dev.name}/{name}": value for name, value in figures.items()})
        metric = member.config.train.metric
        value = figures[metric]
        assert isinstance(value, float)
        keep = member.config.train.keep_best
        better = member.record.judge(value, step, higher_is_better(metric), keep)
        progress.message(
            f"step {step:,}  {dev.name}: {evaluation_report.one_line(figures)}"
            + ("  (best so far)" if better else "")
        )
        if member.record.lower_rate(member.config.train):
            rate = member.record.plateau_rate
            progress.message(f"no better {metric}: the learning rate is {rate:g} of its schedule's")
        return any(step == ranked for _, ranked in member.record.ranking)


def saved_step(members: Sequence[Member]) -> int | None:
    """Returns the newest step that all members have a checkpoint of, None if there is none."""
    if len(members) == 1:
        return members[0].checkpoints.latest_step()
    return max(set.intersection(*(set(m.checkpoints.steps()) for m in members)), default=None)
