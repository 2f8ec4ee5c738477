"""What every mode needs of a run: its model, its data, and its parameters from a workdir.

Several runs may serve as one model, an ensemble.
"""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import jax
import jax.numpy as jnp

from bahdanau_jax import fields
from bahdanau_jax.config import Config
from bahdanau_jax.data.pipeline import Data, EvaluationSplit, open_data
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.evaluator import Evaluator
from bahdanau_jax.fields import Value
from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params
from bahdanau_jax.runtime import devices
from bahdanau_jax.validation import validate
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import manifest
from bahdanau_jax.workdir.checkpoints import Checkpoints
from bahdanau_jax.workdir.selection import Selection, restore_selected


@dataclasses.dataclass(frozen=True)
class TrainedRun:
    """A run that evaluates, translates or scores: nothing of it is written.

    Attributes:
      config: as the run was trained.
      step: updates of the parameters.
      params: replicated over the devices.
      evaluator: the compiled functions of the model.
    """

    config: Config
    step: int
    params: dict
    evaluator: Evaluator

    @property
    def vocabularies(self) -> Vocabularies:
        """The vocabularies of both sides."""
        return self.evaluator.vocabularies


def make_model(config: Config, vocabularies: Vocabularies) -> Seq2Seq:
    """Returns the model that the configuration names, for these vocabularies."""
    return Seq2Seq(config.model, vocabularies.source.size, vocabularies.target.size)


def open_run(
    directory: Path, which: Selection = "best", settings: Mapping[str, Value] | None = None
) -> TrainedRun:
    """Reads a trained model from a workdir.

    Args:
      directory: the workdir.
      which: the checkpoint: `best`, `latest`, a step, or an `Average` of the newest.
      settings: fields of the configuration, by path, that replace those of the run: of `decode`
        and `evaluation`, which no parameter depends on.

    Raises:
      InputError: there is no run, no good checkpoint, or not the vocabulary that it had.
    """
    config, run = workdir.read_config(directory), manifest.identify(directory)
    config = fields.with_values(config, settings or {})
    validate(config)
    vocabularies = Vocabularies.load(directory / "vocabulary")
    manifest.check_fingerprints(directory, {"vocabularies": vocabularies.fingerprint})
    model = make_model(config, vocabularies)
    template = devices.abstract(jax.eval_shape(lambda: initial_params(model, jax.random.key(0))))
    with Checkpoints(directory / "checkpoints", run) as checkpoints:
        restored = restore_selected(checkpoints, template, which)
    evaluator = Evaluator(model, config, vocabularies)
    return TrainedRun(config, restored.step, restored.state, evaluator)


def open_ensemble(
    members: list[tuple[Path, Selection]], settings: Mapping[str, Value] | None = None
) -> TrainedRun:
    """Reads several runs, or several checkpoints of a run, as one model that translates.

    At every step it takes the mean of its members' probabilities (Sutskever et al. 2014, section
    3.6); their parameters are stacked, and one program runs them all.

    Args:
      members: workdir and checkpoint of each, as `open_run` takes them; at least one.
      settings: as of `open_run`; they replace those of the first run.

    Returns:
      The run; its parameters are stacked where there are several members.

    Raises:
      InputError: as `open_run`; or the members aren't of one configuration and vocabulary.
    """
    first, *others = (open_run(directory, which, settings) for directory, which in members)
    if not others:
        return first
    for (directory, _), other in zip(members[1:], others, strict=True):
        _check_alike(members[0][0], first, directory, other)
    params = [run.params for run in (first, *others)]
    stacked = devices.replicate(jax.tree.map(lambda *leaves: jnp.stack(leaves), *params))
    model = make_model(first.config, first.vocabularies)
    evaluator = Evaluator(model, first.config, first.vocabularies, members=len(params))
    return dataclasses.replace(first, params=stacked, evaluator=evaluator)


def _check_alike(path: Path, run: TrainedRun, other_path: Path, other: TrainedRun) -> None:
    if run.vocabularies.fingerprint != other.vocabularies.fingerprint:
        raise InputError(
            f"--ensemble: {other_path} has other vocabularies than {path}; members must have "
            "been trained with the same ones"
        )
    ours, theirs = (fields.to_dict(each.config) for each in (run, other))
    if ours["model"] != theirs["model"] or ours["data"]["lowercase"] != theirs["data"]["lowercase"]:
        raise InputError(
            f"--ensemble: {other_path} has another model than {path}; members must differ only in "
            "what they were trained with"
        )


def open_run_data(directory: Path, config: Config, say: Callable[[str], None]) -> Data:
    """Opens a run's corpus with the vocabularies that it was trained with."""
    return open_data(config.data, Vocabularies.load(directory / "vocabulary"), say)


def open_run_split(
    directory: Path, config: Config, name: str, say: Callable[[str], None]
) -> EvaluationSplit:
    """Reads a split of a run's corpus.

    Args:
      directory: the workdir.
      config: of the run.
      name: any name that `Corpus.resolve_split` takes.
      say: told what takes long.

    Raises:
      InputError: it can't be read, or isn't the text that the run knew by this name.
    """
    data = open_run_data(directory, config, say)
    split = data.evaluation_split(name)
    manifest.check_fingerprints(directory, data.fingerprints(split.name))
    return split
