"""What the cells of a sweep came to, read from their workdirs, and the sentences they share."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bahdanau_jax.comparison.configurations import (
    Configuration,
    Repeated,
    Run,
    group,
    read_run,
)
from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.breakdown import source_lengths
from bahdanau_jax.fields import field_paths, value_of
from bahdanau_jax.reports.evaluation_report import changed
from bahdanau_jax.stored_files import refuse_strange_files
from bahdanau_jax.sweeps import sweep
from bahdanau_jax.sweeps.grid import SEEDS, Point
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import metrics_log


class Missing(NamedTuple):
    """A cell without a result that can be read."""

    name: str
    why: str


class SweepResults(NamedTuple):
    """All cells of a sweep.

    Attributes:
      directory: the sweep's workdir.
      configurations: in the order of the sweep.
      missing: cells that failed, aren't finished, or can't be read.
      repeated: finished cells that are another one again; no figure counts them.
      notes: kept by the sweep, as how cells were matched.
      commands: of the sweep's starts, in their order.
    """

    directory: Path
    configurations: list[Configuration]
    missing: list[Missing]
    repeated: list[Repeated]
    notes: list[str]
    commands: list[list[str]]

    @property
    def runs(self) -> list[Run]:
        """The runs of all configurations."""
        return [run for configuration in self.configurations for run in configuration.runs]


class TestSet(NamedTuple):
    """The sentences of a split that every run was tested on."""

    name: str
    sources: list[str]
    references: list[tuple[str, ...]]
    words: list[int]  # of each source, as `breakdown.source_lengths` counts them
    tokens: list[int]  # of each source


def read_results(directory: Path) -> SweepResults:
    """Reads a sweep; a directory of workdirs that no sweep made will do too.

    Raises:
      InputError: there is no finished run.
    """
    cells, notes, commands = _listed(directory)
    # Each cell is looked through when it is read, and left out if it can't be.
    refuse_strange_files(directory, [name for name, _, _ in cells])
    runs, missing = [], []
    for name, values, _ in cells:
        cell = directory / name
        if not sweep.is_finished(cell):
            failure = sweep.read_failure(cell)
            missing.append(Missing(name, f"failed: {failure}" if failure else _unfinished(cell)))
            continue
        try:
            runs.append(read_run(cell, values))
        except InputError as error:
            missing.append(Missing(name, f"can't be compared: {error}"))
    if not runs:
        why = f"; {missing[0].name} {missing[0].why}" if missing else ""
        raise InputError(f"{directory}: there is no finished run here to compare{why}")
    matched = {path for _, _, fields in cells for path in fields}
    configurations, repeated = group(runs, _swept([values for _, values, _ in cells]), matched)
    return SweepResults(directory, configurations, missing, repeated, notes, commands)


def read_test_set(configurations: Sequence[Configuration], split: str) -> TestSet:
    """Reads the sentences of a split.

    Args:
      configurations: at least one.
      split: a split's name.

    Raises:
      InputError: the runs don't share the sentences, or they are gone; says why.
    """
    runs = [run for configuration in configurations for run in configuration.runs]
    data = [run.config.data for run in runs]
    texts = {(d.source, d.source_language, d.target_language, d.lowercase) for d in data}
    if len(texts) > 1:
        raise InputError("the cells were tested on different data")
    corpus = Corpus(data[0])
    examples = list(corpus.examples(split))
    vocabulary = Vocabularies.load(runs[0].directory / "vocabulary").source
    now = corpus.fingerprint(split)
    for run in runs:
        if run.fingerprint(split) != now:
            then = run.fingerprint(split) or "not recorded"
            raise InputError(
                f"the text of {split} isn't what {run.name} was tested on (fingerprint {then} "
                f"then, {now} now)"
            )
        if len(run.outputs(split) or []) != len(examples):
            raise InputError(f"outputs/{split}.txt of {run.name} doesn't fit the data")
        if f"outputs/{split}.txt" in changed(run.directory, split):
            raise InputError(
                f"outputs/{split}.txt of {run.name} isn't what its evaluation wrote; evaluate "
                f"{split} again"
            )
    sources = [example.source for example in examples]
    references = [tuple(example.references) for example in examples]
    words = source_lengths(vocabulary, sources)
    tokens = [max(len(vocabulary.encode(source)), 1) for source in sources]
    return TestSet(split, sources, references, words, tokens)


def _swept(cells: Sequence[Point]) -> list[str]:
    """Returns the fields, seeds aside, that the sweep gives different values."""
    paths = dict.fromkeys(path for values in cells for path in values)
    return [
        path
        for path in paths
        if path not in SEEDS and any(v.get(path) != cells[0].get(path) for v in cells)
    ]


def _listed(
    directory: Path,
) -> tuple[list[tuple[str, Point, list[str]]], list[str], list[list[str]]]:
    """Returns name, values and matched fields of each cell, the sweep's notes, its commands."""
    if (directory / sweep.SWEEP).exists():
        known = sweep.read_sweep(directory)
        cells = [(c["name"], c["values"], list(c.get("matched", {}))) for c in known["cells"]]
        return cells, known["notes"], [start["command"] for start in known["starts"]]
    held = {path.parent for name in workdir.HELD for path in directory.glob(f"*/{name}")}
    workdirs = sorted(path for path in held if (path / workdir.CONFIG).exists())
    lost = sorted(held.difference(workdirs))
    if not workdirs:
        raise InputError(
            f"{directory}: neither a sweep nor directories of runs; give the workdir of a sweep"
        )
    configs = [workdir.read_config(path) for path in workdirs]
    different = [
        path for path in field_paths() if len({value_of(config, path) for config in configs}) > 1
    ]
    values = [{path: value_of(config, path) for path in different} for config in configs]
    cells = [(p.name, v, []) for p, v in zip(workdirs, values, strict=True)]
    return cells + [(path.name, {}, []) for path in lost], [], []


def _unfinished(directory: Path) -> str:
    try:
        step = metrics_log.read_metrics(directory)[-1]["step"]
    except InputError as error:
        there = (directory / metrics_log.METRICS).exists()
        return f"can't be compared: {error}" if there else "not begun"
    except IndexError:
        return "not begun"
    return f"not finished: it is at step {step:,}"
