"""Training in workdirs, from the checks before the first step to the figures of the last."""

import contextlib
import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax.config import Config
from bahdanau_jax.data import training_links
from bahdanau_jax.data.pipeline import EvaluationSplit, open_data
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation import tokenizers
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.fields import differences, to_dict
from bahdanau_jax.runtime import devices, processes
from bahdanau_jax.runtime.signals import Notice
from bahdanau_jax.terminal import say, say_nothing
from bahdanau_jax.training.agreement import check_processes
from bahdanau_jax.training.loop import MakeProgram, Trainer, saved_step, single_program
from bahdanau_jax.training.member import Member
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import history, manifest
from bahdanau_jax.workdir.checkpoints import Checkpoints
from bahdanau_jax.workdir.selection import restore_selected

# What a run that goes on may be given anew; every start's values are in the manifest.
MAY_CHANGE = (
    "train.steps",
    "train.epochs",
    "train.eval_every",
    "train.checkpoint_every",
    "train.learning_rate",
    "train.max_skipped",
    "train.log_every",
    "train.keep",
    "train.keep_best",
    "train.patience",
    "evaluation.samples",
)
# What decides the parameters' shapes, and which word each row of an embedding means.
SAME = ("model.", "data.vocabulary.", "data.lowercase")


def train(
    config: Config,
    directory: Path,
    overrides: Sequence[str],
    init_from: Path | None = None,
    experiment: Path | None = None,
    restart: bool = False,
) -> None:
    """Trains, or goes on training, and evaluates the best checkpoint on every test split.

    Args:
      config: validated.
      directory: the workdir; made if absent.
      overrides: the fields given by flags, for the manifest.
      init_from: the workdir of a run whose best parameters a new run begins with.
      experiment: the Python file that made the configuration, for the manifest.
      restart: move what the workdir holds aside, and begin anew.

    Raises:
      InputError: the data, the workdir or a checkpoint can't be used.
      RunError: the training can't go on.
      Stopped: a signal asked for it; what there was is saved.
    """
    member = Member(config, directory, overrides, experiment)
    train_members([member], single_program, init_from, restart=restart)


def train_members(
    members: Sequence[Member],
    make_program: MakeProgram,
    init_from: Path | None = None,
    claimed: Callable[[], None] = lambda: None,
    restart: bool = False,
) -> None:
    """Trains members in one program, or goes on; evaluates each one's best checkpoint.

    Args:
      members: at least one; the program can tell their configurations apart.
      make_program: as `loop.Trainer` takes it.
      init_from: the workdir of a run whose best parameters new runs begin with.
      claimed: called once every workdir is the members', before anything is computed.
      restart: move what the workdirs hold aside, and begin anew.

    Raises:
      InputError: the data, a workdir or a checkpoint can't be used.
      RunError: the training can't go on.
      Stopped: a signal asked for it; what there was is saved.
    """
    with contextlib.ExitStack() as stack, processes.until_one_dies():
        notice = stack.enter_context(Notice())
        tell = say if processes.is_first() else say_nothing
        flags = {"init_from": init_from is not None, "restart": restart}
        check_processes(members[0].config, members[0].experiment, flags)
        if restart:
            _move_aside(members, tell)
        ready = _check(stack, members, make_program, init_from, tell)
        with processes.together():
            if processes.is_first():
                _claim(members, ready)
        trainer, splits = ready.trainer, ready.splits
        claimed()
        trainer.train(splits[0], notice)
        for member in members:
            if member.failure:
                continue
            best = member.checkpoints.restore_params(trainer.template().params, "best")
            with processes.together():
                if processes.is_first():
                    params = devices.replicate(best.state)
                    run = TrainedRun(member.config, best.step, params, trainer.evaluator)
                    member.conclude(run, splits)


def check_members(
    members: Sequence[Member], make_program: MakeProgram, init_from: Path | None = None
) -> None:
    """Checks, as `train_members`, all that could be wrong; writes nothing but locks.

    Args:
      members: new, or going on.
      make_program: as `loop.Trainer` takes it.
      init_from: the workdir of a run whose best parameters new runs begin with.

    Raises:
      InputError: the data, a workdir or a checkpoint can't be used.
    """
    with contextlib.ExitStack() as stack:
        _check(stack, members, make_program, init_from, say_nothing)


class _Ready(NamedTuple):
    """What can be trained: nothing that the user gave is wrong."""

    trainer: Trainer
    splits: list[EvaluationSplit]  # the development split, then the test splits
    fingerprints: dict[str, str]  # of the splits' text and the vocabularies
    step: int  # that the members go on from; 0: they are new
    origin: "WarmStart | None"


def _move_aside(members: Sequence[Member], tell: Callable[[str], None]) -> None:
    """Moves what the members' workdirs hold out of the way."""
    with processes.together():
        for member in members if processes.is_first() else ():
            if moved := workdir.move_aside(member.directory):
                tell(f"what {member.directory} held lies in {moved}")


def _check(
    stack: contextlib.ExitStack,
    members: Sequence[Member],
    make_program: MakeProgram,
    init_from: Path | None,
    tell: Callable[[str], None],
) -> _Ready:
    """Reads all that the user gave, before anything but a lock is written.

    Args:
      stack: holds locks and checkpoints open.
      members: new, or going on.
      make_program: as `loop.Trainer` takes it.
      init_from: the workdir of a run whose best parameters new runs begin with.
      tell: told what takes long.
    """
    config = members[0].config
    with processes.together():
        for member in members:
            if processes.is_first():
                stack.enter_context(workdir.lock(member.directory))
            workdir.check_config(member.directory, member.config, MAY_CHANGE)
    for member in members:
        member.open_checkpoints(stack)
        is_new = member.checkpoints.latest_step() is None
        with processes.together():
            if is_new:
                history.check_checkpoints(member.directory, config.train.checkpoint_every)
    resumed, origin = saved_step(members), None
    if init_from is not None and resumed is None:
        origin = WarmStart(init_from, config)
    elif init_from is not None:
        tell(f"--init_from={init_from} is for a new run; this one goes on from step {resumed:,}")
    with processes.together():
        vocabulary = members[0].directory / "vocabulary"
        if origin and not (vocabulary / "vocabulary.json").exists():
            vocabulary = origin.vocabulary
        data = open_data(config.data, Vocabularies.load_saved(vocabulary), tell)
        if origin is not None:
            origin.check(data.vocabularies)
        tokenizers.check(config.evaluation)
        splits = data.training_splits(tell)
        references = (text for x in splits[0].examples for text in x.references)
        if advice := tokenizers.advice(config.evaluation, references):
            tell(advice)
        current = data.fingerprints("train", *(split.name for split in splits))
        if config.data.train_links:
            current["links"] = training_links.fingerprint(config.data)
        for member in members:
            manifest.check_fingerprints(member.directory, current)
        trainer = Trainer(members, data, make_program, None if origin is None else origin.params)
    with processes.together():
        for split in splits:
            trainer.evaluator.search.check(split.sources)
        if processes.from_first(current) != current:
            raise InputError("its data or vocabularies aren't those of process 0")
    return _Ready(trainer, splits, current, trainer.restore() or 0, origin)


def _claim(members: Sequence[Member], ready: _Ready) -> None:
    """Makes the workdirs the members' own."""
    ready.trainer.describe()
    for member in members:
        workdir.write_config(member.directory, member.config, MAY_CHANGE)
        if not (member.directory / "vocabulary" / "vocabulary.json").exists():
            ready.trainer.data.vocabularies.save(member.directory / "vocabulary")
        _say_changes(member.directory, member.config)
        manifest.write_manifest(
            member.directory,
            member.config,
            overrides=member.overrides,
            fingerprints=ready.fingerprints,
            step=ready.step,
            origin=None if ready.origin is None else ready.origin.describe(),
            experiment=member.experiment,
            run=member.checkpoints.saved_run(),
        )
        member.checkpoints.run = manifest.identify(member.directory)
        member.checkpoints.completed = functools.partial(manifest.note_saved, member.directory)


def _say_changes(directory: Path, config: Config) -> None:
    """Says what this start changes of the one before."""
    for start in manifest.read_starts(directory)[-1:]:
        for field, (old, new) in differences(start["config"], config).items():
            say(f"{field} changes from {old!r} to {new!r} from here on")


class WarmStart:
    """The run that `--init_from` names: its model and vocabularies fit the new one.

    Attributes:
      vocabulary: the directory of its vocabularies, which the new run takes over.
    """

    def __init__(self, directory: str | os.PathLike[str], config: Config):
        """Checks that it fits.

        Args:
          directory: its workdir.
          config: of the new run.

        Raises:
          InputError: there is no run, or its model is another; names the fields that differ.
        """
        self._directory = Path(directory)
        with processes.together():
            self._check_config(config)
        self.vocabulary = self._directory / "vocabulary"
        with self._checkpoints() as checkpoints:
            self._step = checkpoints.choose("best")

    def _check_config(self, config: Config) -> None:
        try:
            theirs = workdir.read_config(self._directory)
        except InputError as error:
            raise InputError(f"--init_from={error}") from error
        differing = [
            f"{field} is {old!r} there and {new!r} here"
            for field, (old, new) in differences(to_dict(theirs), config).items()
            if field.startswith(SAME)
        ]
        if differing:
            raise InputError(
                f"--init_from={self._directory} holds another model: {'; '.join(differing)}; give "
                "the values that it was trained with"
            )

    def check(self, vocabularies: Vocabularies) -> None:
        """Raises InputError if the new run has vocabularies of its own already."""
        if vocabularies.fingerprint != Vocabularies.load(self.vocabulary).fingerprint:
            raise InputError(
                f"--init_from={self._directory}: the workdir was begun with other vocabularies; "
                "choose another --workdir"
            )

    def params(self, like: Any) -> Any:
        """Returns its best parameters, placed as the tree `like` is.

        Raises:
          InputError: there is no good checkpoint.
        """
        with self._checkpoints() as checkpoints:
            return restore_selected(checkpoints, like, "best").state

    def describe(self) -> dict[str, Any]:
        """Returns its workdir and the step of its parameters, for the manifest."""
        return {"workdir": os.fspath(self._directory), "step": self._step}

    def _checkpoints(self) -> Checkpoints:
        return Checkpoints(self._directory / "checkpoints", manifest.identify(self._directory))
