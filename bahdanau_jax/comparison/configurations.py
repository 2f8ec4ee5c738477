"""Which runs repeat one configuration, which are one run twice, and what tells rows apart.

A run's settings are all that it was made with: the fields of its configuration that have an effect,
changes of them on the way, the run whose parameters it began with, and its text.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bahdanau_jax.config import Config
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.effects import ineffective
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.breakdown import likelihood_file
from bahdanau_jax.fields import field_paths, short_name, value_of, with_values
from bahdanau_jax.stored_files import read_text
from bahdanau_jax.sweeps.grid import SEEDS, Point
from bahdanau_jax.validation import validate
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import manifest, metrics_log

UNTIL = " until step "  # behind a field that a later start of the run has changed
SAID = ("follows",)  # fields that only say something about the others
FINGERPRINT = "data/"  # before a split's name, in the fingerprints of a manifest

Settings = dict[str, Any]  # fields by path, and what no field says


class Run(NamedTuple):
    """A finished cell.

    Attributes:
      name: of its workdir.
      directory: the workdir.
      values: the fields that the sweep set.
      config: the whole configuration, as its last start had it.
      settings: all that it was made with.
      result: figures by name, as `test/wer`.
      lines: of metrics.jsonl.
      manifest: the last start of its manifest; empty without one.
    """

    name: str
    directory: Path
    values: Point
    config: Config
    settings: Settings
    result: dict[str, Any]
    lines: list[dict[str, Any]]
    manifest: dict[str, Any]

    def outputs(self, split: str) -> list[str] | None:
        """Returns the outputs of a split, None where they can't be read."""
        path = self.directory / "outputs" / f"{split}.txt"
        try:
            return read_text(path).split("\n")[:-1]
        except (OSError, UnicodeDecodeError):
            return None

    def likelihoods(self, split: str) -> np.ndarray | None:
        """Returns -log p in nats and tokens of each sentence's references; None: not recorded.

        Raises:
          InputError: the file can't be read.
        """
        path = self.directory / likelihood_file(split)
        try:
            text = read_text(path)
            return np.array([line.split("\t") for line in text.splitlines()], np.float64)
        except FileNotFoundError:
            return None  # runs of earlier versions have none
        except (OSError, ValueError) as error:
            raise InputError(f"{path} can't be read: {error}") from error

    @property
    def target_vocabulary(self) -> str | None:
        """16 hexadecimal digits that stand for the target's vocabulary; None: it can't be read."""
        try:
            return Vocabularies.load(self.directory / "vocabulary").target.fingerprint
        except InputError:
            return None

    def fingerprint(self, split: str) -> str | None:
        """Returns that of the text that a split had when it was tested; None: not recorded."""
        return self.settings.get(FINGERPRINT + split)

    def speed(self, name: str) -> float:
        """Returns the median of a figure of `speed/`, NaN where there is none."""
        values = [line.get(f"speed/{name}") for line in self.lines]
        numbers = [v for v in values if isinstance(v, int | float) and np.isfinite(v)]
        return float(np.median(numbers)) if numbers else float("nan")


class Configuration(NamedTuple):
    """Runs that differ in their seeds alone."""

    label: str  # what tells it from the others, as `dot` or `score=dot, units=64`
    runs: list[Run]

    def figures(self, name: str) -> list[float]:
        """Returns a figure of each run's result that has it."""
        values = [run.result.get(name) for run in self.runs]
        return [float(value) for value in values if isinstance(value, int | float)]


class Repeated(NamedTuple):
    """A run whose every setting, seeds too, is that of another, which is counted in its place."""

    run: Run
    counted: str  # the other's name


def read_run(directory: Path, values: Point) -> Run:
    """Reads a finished run.

    Args:
      directory: its workdir.
      values: the fields that the sweep set.

    Raises:
      InputError: something in the workdir can't be read.
    """
    starts = manifest.read_starts(directory)
    config = workdir.read_config(directory)
    changes: Settings = {}
    texts: Settings = {}
    for start in starts:
        changed = start.get("changed") or {}
        config = with_values(config, {path: new for path, (_, new) in changed.items()})
        if start.get("step"):
            before = {f"{path}{UNTIL}{start['step']}": old for path, (old, _) in changed.items()}
            changes |= before
        texts |= start["fingerprints"]
    validate(config)
    result = metrics_log.read_result(directory) or {}
    own = manifest.identify(directory).get("id")
    if own and result.get("run", own) != own:
        raise InputError(f"{directory / metrics_log.RESULT} is of another run; bring back its own")
    metrics = result.get(metrics_log.METRICS)
    if metrics and not metrics_log.is_marked(directory, metrics):
        raise InputError(
            f"{directory / metrics_log.METRICS} isn't what it was when the run came to its end; "
            "bring it back, or give the run's command again"
        )
    idle = {*ineffective(config), *SAID}
    settings: Settings = {p: value_of(config, p) for p in field_paths() if p not in idle}
    if origin := next((start["init_from"] for start in starts if start.get("init_from")), None):
        settings["init_from"] = f"{origin['workdir']}@{origin['step']}"
    return Run(
        directory.name,
        directory,
        values,
        config,
        settings | changes | texts,
        result,
        metrics_log.read_metrics(directory),
        starts[-1] if starts else {},
    )


def group(
    runs: Iterable[Run], named: Sequence[str] = (), matched: Iterable[str] = ()
) -> tuple[list[Configuration], list[Repeated]]:
    """Sorts runs into configurations: equal in every setting but the seeds.

    Args:
      runs: in the order of the sweep.
      named: the fields that rows are named by, if there is more than one of them in the sweep;
        further settings in which the rows differ are put behind them.
      matched: fields that follow from those, as sizes of equal numbers of parameters: they stand
        in a name only where two rows would have the same one.

    Returns:
      The configurations, and the runs that are there twice.
    """
    rows: dict[tuple, list[Run]] = {}
    known: dict[tuple, str] = {}
    repeated = []
    for run in runs:
        everything = _key(run.settings)
        if everything in known:
            repeated.append(Repeated(run, known[everything]))
            continue
        known[everything] = run.name
        rows.setdefault(_key(run.settings, SEEDS), []).append(run)
    settings = [members[0].settings for members in rows.values()]
    labels = _labels(settings, named, set(matched))
    return [
        Configuration(label, members) for label, members in zip(labels, rows.values(), strict=True)
    ], repeated


def differing(settings: Sequence[Settings]) -> list[str]:
    """Returns the settings, seeds aside, of which several have different values.

    Where a field has no effect it has no value, and that alone is no difference: the fields that
    decide about it differ then.
    """
    names = dict.fromkeys(name for each in settings for name in each if name not in SEEDS)
    fields = set(field_paths())
    return [
        name
        for name in names
        if len({each[name] for each in settings if name in each}) > 1
        or (name not in fields and any(name not in each for each in settings))
    ]


def _key(settings: Settings, without: Sequence[str] = ()) -> tuple:
    return tuple(sorted((name, value) for name, value in settings.items() if name not in without))


def _labels(settings: Sequence[Settings], named: Sequence[str], matched: set[str]) -> list[str]:
    """Returns a name for each configuration, all different."""
    names = [*named, *(n for n in differing(settings) if n not in named and n not in matched)]
    labels = [_label(each, names) for each in settings]
    for label in dict.fromkeys(labels):
        same = [place for place, other in enumerate(labels) if other == label]
        more = differing([settings[place] for place in same])
        for place in same if len(same) > 1 else ():
            labels[place] = _label(settings[place], [*names, *(n for n in more if n not in names)])
    return labels


def _label(settings: Settings, names: Sequence[str]) -> str:
    """Returns a configuration's name: `dot` where scores alone differ, else all that differs."""
    if len(names) == 1 and names[0] in field_paths():
        value = settings.get(names[0])
        if value and isinstance(value, str):
            return value
    parts = []
    for name in names:
        path, _, step = name.partition(UNTIL)
        is_field = path in field_paths()
        if name in settings or not is_field:
            shown = (short_name(path) if is_field else path) + (UNTIL + step if step else "")
            parts.append(f"{shown}={settings.get(name, 'none')}")
    return ", ".join(parts) or "all"
