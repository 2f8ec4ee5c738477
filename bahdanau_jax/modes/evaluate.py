"""The mode `evaluate`: the figures of a split, on standard output and in the workdir."""

import contextlib
import tempfile
from pathlib import Path

from bahdanau_jax.config import Config
from bahdanau_jax.evaluation import tokenizers
from bahdanau_jax.evaluation.gold_comparison import with_gold
from bahdanau_jax.evaluation.trained_run import TrainedRun, open_run_split
from bahdanau_jax.fields import differences, to_dict
from bahdanau_jax.reports import evaluation_report
from bahdanau_jax.terminal import say
from bahdanau_jax.workdir.directory import read_config
from bahdanau_jax.workdir.selection import Selection

OTHERWISE = "evaluated"  # in the workdir: outputs and figures of other settings than the run's own
SIZES = ("decode.batch_size",)  # fields that change no output


def evaluate(
    run: TrainedRun,
    directory: Path,
    name: str,
    gold: str | None = None,
    base: int | None = None,
    checkpoint: Selection = "best",
) -> None:
    """Evaluates a split; prints its figures, whole and in parts.

    Outputs and figures are the run's own if they come from its best checkpoint and are searched for
    as it says. All others are written to a folder named by what differs: a comparison reads the
    run's own, beside its result.

    Args:
      run: the trained model.
      directory: its workdir, where outputs and figures are written.
      name: of the split.
      gold: path of gold links, which take the place of the data set's own; None: those.
      base: as of `read_gold`.
      checkpoint: the one whose parameters the run has.

    Raises:
      InputError: the split, the links or BLEU's tokeniser can't be used.
    """
    tokenizers.check(run.config.evaluation)
    split = open_run_split(directory, run.config, name, say)
    references = (text for example in split.examples for text in example.references)
    if advice := tokenizers.advice(run.config.evaluation, references):
        say(advice)
    if gold is not None:
        split = with_gold(run, split, gold, base)
    place = directory
    if other := _other(read_config(directory), run.config, checkpoint):
        place = directory / OTHERWISE / other
        say(f"not the settings of the run itself: outputs and figures go to {place}")
    with contextlib.ExitStack() as stack:
        if why := _cannot_be_written(place):
            say(f"{place} can't be written to ({why}): outputs, alignments and figures aren't kept")
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        figures, _ = evaluation_report.evaluate_split(run, place, split)
        evaluation_report.print_figures(split.name, figures)
        evaluation_report.print_parts(place, split.name)


def _cannot_be_written(place: Path) -> str | None:
    """Returns why an evaluation's files can't be made in a directory; None if they can."""
    try:
        for name in evaluation_report.FOLDERS:
            (place / name).mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place / name):
                pass
    except OSError as error:
        return error.strerror
    return None


def _other(own: Config, used: Config, checkpoint: Selection) -> str:
    """Returns what differs from a run's own settings, as a folder's name; empty if nothing does."""
    parts = [
        f"{path.rpartition('.')[2]}={value}"
        for path, (_, value) in differences(to_dict(own), used).items()
        if path not in SIZES
    ]
    if checkpoint != "best":
        parts.append(f"checkpoint={checkpoint}")
    return ",".join(parts)
