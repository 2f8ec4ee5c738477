"""Which configuration of a sweep is better, by how much, and is it more than noise?"""

import itertools
import math
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bahdanau_jax.comparison.configurations import Configuration, Run
from bahdanau_jax.comparison.results import SweepResults, TestSet, read_results, read_test_set
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation import significance
from bahdanau_jax.evaluation.breakdown import (
    SentenceSums,
    likelihood_file,
    named_sums,
    sentence_sums,
)
from bahdanau_jax.evaluation.metrics import METRICS, Scoring, compared, higher_is_better
from bahdanau_jax.evaluation.significance import Difference, Summary
from bahdanau_jax.reports.evaluation_report import changed

PER_TOKEN = "nll_per_token"
ALL_PAIRS = 10  # of more configurations, each is compared with the best alone


class Pair(NamedTuple):
    """Two configurations, one figure."""

    first: str
    second: str
    difference: Difference  # first minus second
    adjusted_p: float
    smallest: float  # difference that would have been found with a power of 80 %
    sentence: str


class Cost(NamedTuple):
    """What a configuration takes; medians over its runs, NaN where unknown."""

    parameters: float
    step_seconds: float
    tokens_per_second: float  # target tokens, padding not counted
    peak_bytes: float


class Comparison(NamedTuple):
    """All that a report shows.

    Attributes:
      results: the cells.
      split: the test split in which configurations are compared.
      metric: the figure that decides, of that split.
      summaries: for each figure, as `test/wer`, one of each configuration that has it.
      pairs: for each metric of the split the pairs that were compared.
      costs: by configuration.
      test_set: the split's sentences, None where they aren't used.
      sums: what each run's sentences add to each metric, by the run's name.
      warnings: sentences that say what was left out of the comparison, and why.
      unlike: figures, as `test/bleu`, that can't be compared, and why.
    """

    results: SweepResults
    split: str
    metric: str
    summaries: dict[str, dict[str, Summary]]
    pairs: dict[str, list[Pair]]
    costs: dict[str, Cost]
    test_set: TestSet | None
    sums: dict[str, dict[str, SentenceSums]]
    warnings: list[str]
    unlike: dict[str, str]


def make_comparison(directory: Path, say: Callable[[str], None]) -> Comparison:
    """Computes all figures of a sweep's report; writes nothing.

    Args:
      directory: the sweep's workdir.
      say: told what takes long, and what is missing.
    """
    results = read_results(directory)
    configurations, runs = results.configurations, results.runs
    warnings = [
        f"{again.run.name} has the whole configuration of {again.counted}, seeds too; it is one "
        "run, and counted once"
        for again in results.repeated
    ]
    split = _test_split(runs)
    kind = runs[0].config.evaluation.metrics
    test_set, sums = None, {}
    try:
        test_set = read_test_set(configurations, split)
        say(f"comparing {len(test_set.sources):,} sentences of {split} in {len(runs)} runs")
        sums = {run.name: _sums(run, test_set) for run in runs}
        warnings += [
            f"{name} of {run.name} isn't what its evaluation wrote; evaluate {split} again"
            for run in runs
            for name in changed(run.directory, split)
        ]
    except InputError as error:
        test_set, sums = None, {}
        warnings.append(f"sentences aren't compared, and no interval is over them: {error}")
    unlike = _unlike(runs)
    warnings += [f"{name} isn't compared: {why}" for name, why in unlike.items()]
    metrics = [m.name for m in compared(kind) if f"{split}/{m.name}" not in unlike]
    for warning in warnings:
        say(warning)
    return Comparison(
        results,
        split,
        metrics[0],
        _summaries(configurations),
        {m: pairs for m in metrics if (pairs := _pairs(configurations, split, m, sums))},
        {c.label: _cost(c) for c in configurations},
        test_set,
        sums,
        warnings,
        unlike,
    )


def verdict(
    first: str,
    second: str,
    difference: Difference,
    adjusted_p: float,
    metric: str,
    higher_is_better: bool,
    smallest: float,
) -> str:
    """Says in a plain sentence how two systems compare.

    Args:
      first: a system's name.
      second: the other's.
      difference: first minus second.
      adjusted_p: from `holm`, over all pairs of the comparison.
      metric: what was measured, as `WER`.
      higher_is_better: of the metric.
      smallest: the smallest difference that would have been found.
    """
    better, worse = first, second
    low, high = difference.low, difference.high
    if (difference.value > 0) != higher_is_better:
        better, worse = second, first
    if difference.value < 0:
        low, high = -high, -low
    size = f"{_figure(abs(difference.value))} {metric}"
    if math.isnan(difference.p):
        return (
            f"{first} and {second} differ by {size}; {_sources(difference)} say nothing of the "
            "noise"
        )
    interval = (
        f"95 % interval {_figure(low)} to {_figure(high)}; {_sources(difference)}; a difference of "
        f"{_figure(smallest)} would show (power 80 %)"
    )
    if low > 0 and adjusted_p < 1 - significance.CONFIDENCE:
        return f"{better} is better than {worse} by {size}; {interval}"
    if low > 0:
        return (
            f"{better} may be better than {worse} by {size}; {interval}; among so many comparisons "
            "chance alone finds such a pair"
        )
    return f"{first} and {second}: no difference beyond the noise ({size}; {interval})"


def _sources(difference: Difference) -> str:
    """Says what the noise of a difference is known from."""
    seeds, sources = difference.seeds, difference.noise.sources
    if not sources:
        count = "1 seed" if seeds == 1 else f"{seeds} seeds with equal figures"
        return f"{count} and no figures of the same sentences"
    if "seeds" not in sources:
        return "1 seed, so the noise between seeds isn't known"
    if "sentences" not in sources:
        return f"{seeds} seeds; the noise between sentences isn't known"
    return f"{seeds} seeds"


def _figure(value: float) -> str:
    """Returns a figure with two decimals, or with as many as it needs to be seen."""
    if value and abs(value) < 0.095:
        return f"{value:.2g}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def is_on_front(place: int, qualities: Sequence[float], costs: Sequence[float]) -> bool:
    """Returns whether one is on the Pareto front: every other is worse at something, or equal.

    Args:
      place: which one is asked about.
      qualities: of all; the higher, the better.
      costs: of all; the lower, the better.
    """
    mine = (qualities[place], costs[place])
    return not any(
        q >= mine[0] and c <= mine[1] and (q, c) != mine
        for q, c in zip(qualities, costs, strict=True)
    )


def command_lines(results: SweepResults) -> list[str]:
    """Returns the commands that made the sweep, as a shell reads them."""
    return list(dict.fromkeys(shlex.join(["python", *command]) for command in results.commands))


def _test_split(runs: Sequence[Run]) -> str:
    """Returns the first test split of the results, or the development split."""
    names = [name.split("/")[0] for name in runs[0].result if "/" in name]
    return next((name for name in names if name.startswith("test")), names[0] if names else "dev")


def _unlike(runs: Sequence[Run]) -> dict[str, str]:
    """Returns why figures can't be compared: signatures, as sacreBLEU's, or vocabularies differ."""
    marks: dict[str, set] = {}
    for run in runs:
        for name, value in run.result.items():
            if name.endswith("_signature"):
                marks.setdefault(name.removesuffix("_signature"), set()).add(value)
    unlike = {
        name: "the runs have computed it in different ways"
        for name, values in marks.items()
        if len(values) > 1
    }
    if len({run.target_vocabulary for run in runs}) > 1:
        likelihoods = (n for run in runs for n in run.result if n.endswith(f"/{PER_TOKEN}"))
        unlike |= dict.fromkeys(likelihoods, "the runs' target vocabularies differ")
    return unlike


def _summaries(configurations: Sequence[Configuration]) -> dict[str, dict[str, Summary]]:
    names = dict.fromkeys(n for c in configurations for run in c.runs for n in run.result)
    columns = [metric.name for metric in METRICS.values() if metric.in_tables]
    shown = [n for n in names if n.count("/") == 1 and n.split("/")[1] in columns]
    shown.sort(key=lambda n: columns.index(n.split("/")[1]))
    shown.sort(key=lambda n: n.split("/")[0])
    return {
        name: {c.label: significance.summary(f) for c in configurations if (f := c.figures(name))}
        for name in shown
    }


def _pairs(
    configurations: Sequence[Configuration],
    split: str,
    metric: str,
    sums: dict[str, dict[str, SentenceSums]],
) -> list[Pair]:
    """Compares configurations by a metric; of many pairs, those with the best are returned.

    All pairs count in the adjustment: which one is the best is known only from the figures.
    """
    known = [c for c in configurations if c.figures(f"{split}/{metric}")]
    figures = {c.label: c.figures(f"{split}/{metric}") for c in known}
    samples: dict[str, np.ndarray] = {}
    if all(metric in sums.get(run.name, {}) for c in known for run in c.runs) and known:
        parts = [sums[run.name][metric] for c in known for run in c.runs]
        scores = significance.bootstrap([part.values for part in parts], parts[0].score)
        ends = np.cumsum([len(c.runs) for c in known])[:-1]
        samples = dict(zip([c.label for c in known], np.split(scores, ends), strict=True))
    labels, better = list(figures), higher_is_better(metric)
    chosen = list(itertools.combinations(labels, 2))
    differences = [
        significance.difference(figures[a], figures[b], samples.get(a), samples.get(b))
        for a, b in chosen
    ]
    adjusted = significance.holm([difference.p for difference in differences])
    count = sum(not math.isnan(p) for p in adjusted)
    pairs = []
    for (a, b), difference, p in zip(chosen, differences, adjusted, strict=True):
        smallest = difference.noise.smallest(count)
        sentence = verdict(a, b, difference, p, METRICS[metric].shown, better, smallest)
        pairs.append(Pair(a, b, difference, p, smallest, sentence))
    if len(labels) > ALL_PAIRS:
        best = (max if better else min)(labels, key=lambda label: np.mean(figures[label]))
        pairs = [pair for pair in pairs if best in pair[:2]]
    return pairs


def _cost(configuration: Configuration) -> Cost:
    def median(values: list[float]) -> float:
        known = [value for value in values if math.isfinite(value)]
        return float(np.median(known)) if known else math.nan

    runs = configuration.runs
    parameters = [float(run.result.get("parameters", math.nan)) for run in runs]
    return Cost(
        median(parameters),
        median([run.speed("step_seconds") for run in runs]),
        median([run.speed("target_tokens_per_second") for run in runs]),
        median([run.speed("peak_memory_bytes") for run in runs]),
    )


def _sums(run: Run, test_set: TestSet) -> dict[str, SentenceSums]:
    """Returns what a run's sentences add to its figures.

    Raises:
      InputError: they don't add up to the figures of its result, so that they are of other outputs,
        or its likelihoods can't be read.
    """
    split = test_set.name
    outputs = run.outputs(split) or []
    sums = sentence_sums(Scoring.of(run.config), outputs, test_set.references)
    likelihoods = run.likelihoods(split)
    if likelihoods is not None:
        if likelihoods.shape != (len(outputs), 2):
            raise InputError(f"{likelihood_file(split)} of {run.name} doesn't fit the data")
        sums |= named_sums({PER_TOKEN: likelihoods})
    for name, of_metric in sums.items():
        figure, stated = of_metric.figure(), run.result.get(f"{split}/{name}")
        if stated is not None and not math.isclose(figure, float(stated), abs_tol=1e-6):
            file = likelihood_file(split) if name == PER_TOKEN else f"outputs/{split}.txt"
            raise InputError(
                f"{file} of {run.name} gives {name} {figure:.4f}, and its result says "
                f"{float(stated):.4f}: the file there isn't of what was scored"
            )
    return sums
