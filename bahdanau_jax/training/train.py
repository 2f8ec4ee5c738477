"""Training in a workdir, from the checks before the first step to the figures of the last."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from bahdanau_jax.config import Config
from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.fields import differences
from bahdanau_jax.reports import evaluation_report
from bahdanau_jax.runtime import devices, processes
from bahdanau_jax.runtime.signals import Notice
from bahdanau_jax.terminal import say, say_nothing
from bahdanau_jax.training.loop import Trainer
from bahdanau_jax.training.warm_start import WarmStart
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import manifest
from bahdanau_jax.workdir.checkpoints import Checkpoints

# What a run that goes on may be given anew; every start's values are in the manifest.
MAY_CHANGE = (
    "train.steps",
    "train.epochs",
    "train.eval_every",
    "train.checkpoint_every",
    "train.learning_rate",
    "train.max_skipped",
    "train.log_every",
    "train.patience",
    "evaluation.samples",
)


def train(
    config: Config, directory: Path, overrides: Sequence[str], init_from: Path | None = None
) -> None:
    """Trains, or goes on training, and evaluates the best checkpoint on every test split.

    Args:
      config: validated.
      directory: the workdir; made if absent.
      overrides: the fields given by flags, for the manifest.
      init_from: the workdir of a run whose best parameters a new run begins with.

    Raises:
      InputError: the data, the workdir or a checkpoint can't be used.
      RunError: the training can't go on.
      Stopped: a signal asked for it; what there was is saved.
    """
    first = processes.is_first()
    tell = say if first else say_nothing
    with contextlib.ExitStack() as stack:
        notice = stack.enter_context(Notice())
        with processes.together():
            if first:
                stack.enter_context(workdir.lock(directory))
            workdir.check_config(directory, config, MAY_CHANGE)
        checkpoints = stack.enter_context(Checkpoints(directory / "checkpoints"))
        resumed = checkpoints.latest_step()
        start = None
        if init_from is not None and resumed is None:
            start = WarmStart(init_from, config)
        with processes.together():
            vocabulary = directory / "vocabulary"
            new = not (vocabulary / "vocabulary.json").exists()
            saved = Vocabularies.load_saved(start.vocabulary if new and start else vocabulary)
            data = open_data(config.data, saved, tell)
            if start is not None:
                start.check(data.vocabularies)
            splits = data.training_splits()
            found = data.fingerprints("train", *(split.name for split in splits))
            manifest.check_fingerprints(directory, found)
            trainer = Trainer(config, directory, data, start)
        with processes.together():
            if processes.from_first(found) != found:
                raise InputError("its data or vocabularies aren't those of process 0")
        if first:
            # All that the user gave has been read, so that a mistake in it claims no workdir.
            workdir.write_config(directory, config, MAY_CHANGE)
            if new:
                data.vocabularies.save(vocabulary)
            trainer.describe()
            _say_changes(directory, config)
            manifest.write_manifest(
                directory,
                config,
                overrides=overrides,
                fingerprints=found,
                step=resumed or 0,
                origin=None if start is None else start.describe(),
            )
        with processes.until_one_dies():
            state = trainer.train(checkpoints, splits[0], notice)
            best = checkpoints.restore_params(state.params, "best")
            if first:
                params = devices.replicate(best.state)
                run = TrainedRun(config, best.step, params, trainer.evaluator)
                evaluation_report.conclude(run, directory, splits)
            processes.from_first(None)


def _say_changes(directory: Path, config: Config) -> None:
    """Says what this start changes of the one before."""
    for start in manifest.read_starts(directory)[-1:]:
        for field, (old, new) in differences(start["config"], config).items():
            say(f"{field} changes from {old!r} to {new!r} from here on")
