"""The mode `evaluate`: the figures of a split, on standard output and in the workdir."""

from pathlib import Path

from bahdanau_jax.evaluation.gold_comparison import with_gold
from bahdanau_jax.evaluation.trained_run import TrainedRun, open_run_split
from bahdanau_jax.reports import evaluation_report
from bahdanau_jax.terminal import say


def evaluate(
    run: TrainedRun, directory: Path, name: str, gold: str | None = None, base: int | None = None
) -> None:
    """Evaluates a split; prints its figures, whole and in parts.

    Args:
      run: the trained model.
      directory: its workdir, where outputs and figures are written.
      name: of the split.
      gold: path of gold links, which take the place of the data set's own; None: those.
      base: as of `read_gold`.

    Raises:
      InputError: the split or the links can't be read.
    """
    split = open_run_split(directory, run.config, name, say)
    if gold is not None:
        split = with_gold(run, split, gold, base)
    figures, _ = evaluation_report.evaluate_split(run, directory, split)
    evaluation_report.print_figures(split.name, figures)
    evaluation_report.print_parts(directory, split.name)
