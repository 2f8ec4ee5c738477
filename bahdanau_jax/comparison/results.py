"""What the cells of a sweep came to: read from their workdirs, grouped by configuration."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bahdanau_jax.config import Config
from bahdanau_jax.data.corpus import Corpus
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import field_paths, short_name, value_of
from bahdanau_jax.sweeps import sweep
from bahdanau_jax.sweeps.grid import Point
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import manifest, metrics_log

SEEDS = ("seed", "data.seed")  # fields whose values repeat a configuration


class Run(NamedTuple):
    """A finished cell.

    Attributes:
      name: of its workdir.
      directory: the workdir.
      values: the fields that the sweep set.
      config: the whole configuration.
      result: figures by name, as `test/wer`.
      lines: of metrics.jsonl.
      manifest: the last start of its manifest; empty without one.
    """

    name: str
    directory: Path
    values: Point
    config: Config
    result: dict[str, Any]
    lines: list[dict[str, Any]]
    manifest: dict[str, Any]

    def outputs(self, split: str) -> list[str] | None:
        """Returns the outputs of a split, None where they can't be read."""
        path = self.directory / "outputs" / f"{split}.txt"
        try:
            return path.read_text(encoding="utf-8").split("\n")[:-1]
        except (OSError, UnicodeDecodeError):
            return None

    def speed(self, name: str) -> float:
        """Returns the median of a figure of `speed/`, NaN where there is none."""
        values = [line.get(f"speed/{name}") for line in self.lines]
        numbers = [v for v in values if isinstance(v, int | float) and math.isfinite(v)]
        return float(np.median(numbers)) if numbers else math.nan


class Configuration(NamedTuple):
    """Runs that differ in their seeds alone."""

    label: str  # what tells it from the others, as `dot` or `score=dot, units=64`
    runs: list[Run]

    def figures(self, name: str) -> list[float]:
        """Returns a figure of each run's result that has it."""
        found = [run.result.get(name) for run in self.runs]
        return [float(value) for value in found if isinstance(value, int | float)]


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
      notes: kept by the sweep, as how cells were matched.
      commands: of the sweep's starts, in their order.
    """

    directory: Path
    configurations: list[Configuration]
    missing: list[Missing]
    notes: list[str]
    commands: list[list[str]]


class TestSet(NamedTuple):
    """The sentences of a split that every run was tested on."""

    name: str
    sources: list[str]
    references: list[tuple[str, ...]]
    lengths: list[int]  # tokens of each source


def read_results(directory: Path) -> SweepResults:
    """Reads a sweep; a directory of workdirs that no sweep made will do too.

    Raises:
      InputError: there is no finished run.
    """
    listed, notes, commands = _listed(directory)
    configurations: dict[str, Configuration] = {}
    missing, fields = [], _telling([values for _, values in listed])
    for name, values in listed:
        cell = directory / name
        if not sweep.is_finished(cell):
            failure = sweep.read_failure(cell)
            missing.append(Missing(name, f"failed: {failure}" if failure else _unfinished(cell)))
            continue
        try:
            run = _read_run(cell, values)
        except InputError as error:
            missing.append(Missing(name, f"can't be compared: {error}"))
            continue
        label = _label(values, fields)
        configurations.setdefault(label, Configuration(label, [])).runs.append(run)
    if not configurations:
        why = f"; {missing[0].name} {missing[0].why}" if missing else ""
        raise InputError(f"{directory}: there is no finished run here to compare{why}")
    return SweepResults(directory, list(configurations.values()), missing, notes, commands)


def read_test_set(
    configurations: Sequence[Configuration], split: str, say: Callable[[str], None]
) -> TestSet | None:
    """Reads the sentences of a split; None where the runs don't share them, or they are gone.

    Args:
      configurations: at least one.
      split: a split's name.
      say: told why there are none.
    """
    runs = [run for configuration in configurations for run in configuration.runs]
    data = [run.config.data for run in runs]
    texts = {(d.source, d.source_language, d.target_language, d.lowercase) for d in data}
    if len(texts) > 1:
        say("the cells were tested on different data: no sentence is paired with another")
        return None
    try:
        examples = list(Corpus(data[0]).examples(split))
        vocabulary = Vocabularies.load(runs[0].directory / "vocabulary").source
    except InputError as error:
        say(f"sentences aren't compared, since the data can't be read: {error}")
        return None
    counts = {len(run.outputs(split) or []) for run in runs}
    if counts != {len(examples)}:
        say(f"outputs/{split}.txt of some cell doesn't fit the data: sentences aren't compared")
        return None
    sources = [example.source for example in examples]
    references = [tuple(example.references) for example in examples]
    lengths = [max(len(vocabulary.encode(source)), 1) for source in sources]
    return TestSet(split, sources, references, lengths)


def _telling(cells: Sequence[Point]) -> list[str]:
    """Returns the fields, seeds aside, in which the cells differ."""
    paths = dict.fromkeys(path for values in cells for path in values)
    return [
        path
        for path in paths
        if path not in SEEDS and any(v.get(path) != cells[0].get(path) for v in cells)
    ]


def _label(values: Point, fields: Sequence[str]) -> str:
    """Returns a configuration's name: `dot` where scores alone differ, else all that differs."""
    if len(fields) == 1 and isinstance(values.get(fields[0]), str) and values[fields[0]]:
        return str(values[fields[0]])
    return ", ".join(f"{short_name(p)}={values[p]}" for p in fields if p in values) or "all"


def _listed(directory: Path) -> tuple[list[tuple[str, Point]], list[str], list[list[str]]]:
    if (directory / sweep.SWEEP).exists():
        known = sweep.read_sweep(directory)
        cells = [(cell["name"], cell["values"]) for cell in known["cells"]]
        return cells, known["notes"], [start["command"] for start in known["starts"]]
    found = sorted(path.parent for path in directory.glob(f"*/{workdir.CONFIG}"))
    if not found:
        raise InputError(
            f"{directory}: neither a sweep nor directories of runs; give the workdir of a sweep"
        )
    configs = [workdir.read_config(path) for path in found]
    different = [
        path for path in field_paths() if len({value_of(config, path) for config in configs}) > 1
    ]
    values = [{path: value_of(config, path) for path in different} for config in configs]
    return [(p.name, v) for p, v in zip(found, values, strict=True)], [], []


def _read_run(directory: Path, values: Point) -> Run:
    starts = manifest.read_starts(directory)
    return Run(
        directory.name,
        directory,
        values,
        workdir.read_config(directory),
        metrics_log.read_result(directory) or {},
        metrics_log.read_metrics(directory),
        starts[-1] if starts else {},
    )


def _unfinished(directory: Path) -> str:
    try:
        step = metrics_log.read_metrics(directory)[-1]["step"]
    except (InputError, IndexError):
        return "not begun"
    return f"not finished: it is at step {step:,}"
