"""Training in a workdir, from the checks before the first step to the figures of the last."""

from collections.abc import Sequence
from pathlib import Path

from bahdanau_jax import report, results, workdir
from bahdanau_jax.checkpoint import Checkpoints
from bahdanau_jax.config import Config
from bahdanau_jax.data import open_data
from bahdanau_jax.errors import InputError
from bahdanau_jax.progress import say
from bahdanau_jax.run import TrainedRun
from bahdanau_jax.trainer import Trainer


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
