"""What every mode needs of a run: its model, its data, and its parameters from a workdir."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import jax

from bahdanau_jax import parallel, workdir
from bahdanau_jax.checkpoint import Checkpoints, Which
from bahdanau_jax.config import Config
from bahdanau_jax.data import Data, open_data
from bahdanau_jax.evaluation import Evaluator
from bahdanau_jax.model import Seq2Seq, initial_params
from bahdanau_jax.validation import validate
from bahdanau_jax.vocabulary import Vocabularies


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


def open_run(directory: Path, which: Which = "best") -> TrainedRun:
    """Reads a trained model from a workdir.

    Args:
      directory: the workdir.
      which: the checkpoint: `best`, `latest`, or a step.

    Raises:
      InputError: there is no run, no good checkpoint, or no vocabulary.
    """
    config = workdir.read_config(directory)
    validate(config)
    vocabularies = Vocabularies.load(directory / "vocabulary")
    model = make_model(config, vocabularies)
    template = jax.tree.map(
        lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=parallel.replicated()),
        jax.eval_shape(lambda: initial_params(model, jax.random.key(0))),
    )
    with Checkpoints(directory / "checkpoints") as checkpoints:
        restored = checkpoints.restore_params(template, which)
    evaluator = Evaluator(model, config, vocabularies)
    return TrainedRun(config, restored.step, restored.state, evaluator)


def open_run_data(directory: Path, config: Config, say: Callable[[str], None]) -> Data:
    """Opens a run's corpus with the vocabularies that it was trained with."""
    return open_data(config.data, directory / "vocabulary", say)
