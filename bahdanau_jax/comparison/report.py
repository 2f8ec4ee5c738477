"""The mode `compare`: from a sweep's workdir to its table and its page.

The page is one HTML file that needs no network, in light and dark.
"""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from bahdanau_jax.comparison.compare import (
    Comparison,
    Pair,
    command_lines,
    is_on_front,
    make_comparison,
)
from bahdanau_jax.comparison.configurations import Configuration, Run, differing
from bahdanau_jax.comparison.sample_alignments import Sample, sample_alignments
from bahdanau_jax.comparison.tables import count, spread, to_csv, to_markdown
from bahdanau_jax.durable import write_atomically
from bahdanau_jax.evaluation import significance
from bahdanau_jax.evaluation.breakdown import length_curve
from bahdanau_jax.evaluation.metrics import METRICS, higher_is_better
from bahdanau_jax.evaluation.significance import Summary
from bahdanau_jax.fields import to_json
from bahdanau_jax.reports import plots
from bahdanau_jax.reports.pages import render
from bahdanau_jax.sweeps.grid import SEEDS
from bahdanau_jax.terminal import say, visible

WIDEST = 40  # characters of two names that fit beside a chart
PAGE, TABLE = "report.html", "results.csv"


def report(directory: Path, stream: TextIO) -> None:
    """Writes `report.html` and `results.csv` into a sweep's workdir, and its table to a stream.

    Args:
      directory: the sweep's workdir.
      stream: for the table, in Markdown.

    Raises:
      InputError: there is no finished run.
    """
    comparison = make_comparison(directory, say)
    samples: list[Sample] = []
    if comparison.test_set is not None:
        samples = sample_alignments(comparison.results.configurations, comparison.test_set)
    write_atomically(directory / TABLE, to_csv(comparison))
    write_atomically(directory / PAGE, page(comparison, samples))
    print(visible(to_markdown(comparison)), file=stream)
    say(f"the report is {directory / PAGE}; each cell's figures are in {directory / TABLE}")


def page(comparison: Comparison, samples: Sequence[Sample]) -> str:
    """Returns the page.

    Args:
      comparison: the figures.
      samples: sentences with the alignments of several configurations.
    """
    results, metric, test_set = comparison.results, comparison.metric, comparison.test_set
    columns = _columns(comparison)
    speeds = {label: 1000 / cost.tokens_per_second for label, cost in comparison.costs.items()}
    parameters = {label: cost.parameters for label, cost in comparison.costs.items()}
    fronts = [
        _front(comparison, "parameters", parameters),
        _front(comparison, "seconds per 1,000 target tokens", speeds),
    ]
    return render(
        "comparison",
        title=f"Comparison: {results.directory.name}",
        labels=[configuration.label for configuration in results.configurations],
        colours=plots.COLOURS,
        runs=len(results.runs),
        several=any(len(configuration.runs) > 1 for configuration in results.configurations),
        sentences=None if test_set is None else f"{len(test_set.sources):,}",
        split=comparison.split,
        metric=METRICS[metric].shown,
        direction="more" if higher_is_better(metric) else "less",
        missing=results.missing,
        warnings=comparison.warnings,
        verdicts=[
            (_title(name), [pair.sentence for pair in pairs])
            for name, pairs in comparison.pairs.items()
            if pairs
        ],
        noise=_noise(comparison),
        quality_names=columns,
        quality=[_quality(comparison, c, columns) for c in results.configurations],
        differences=[_differences(*item) for item in comparison.pairs.items() if item[1]],
        curves=_curves(comparison),
        lengths=_lengths(comparison),
        samples=samples,
        costs=_costs(comparison),
        fronts=[chart for chart in fronts if chart],
        cells=_cells(results.runs),
        commands=command_lines(results),
        notes=results.notes,
        facts=_facts(results.runs),
    )


def _columns(comparison: Comparison) -> list[str]:
    """Returns the figures of the table of quality: all of test splits, the main ones of `dev`."""
    development = (f"dev/{comparison.metric}", "dev/nll_per_token")
    names = sorted(comparison.summaries, key=lambda name: not name.startswith("test"))
    return [name for name in names if name.startswith("test") or name in development]


def _quality(
    comparison: Comparison, configuration: Configuration, columns: Sequence[str]
) -> tuple[str, int, list[tuple[str, bool]]]:
    """Returns a row of the table: label, number of seeds, and of each figure (text, the best?)."""
    label, cells = configuration.label, []
    for name in columns:
        summaries = comparison.summaries[name]
        text = spread(summaries[label]) if label in summaries else ""
        same = name not in comparison.unlike
        cells.append((text, same and label in best(name, summaries)))
    return label, len(configuration.runs), cells


def best(name: str, summaries: Mapping[str, Summary]) -> set[str]:
    """Returns the labels of the best figures; none where all are equal or no direction is better.

    Figures are equal if they look so: what is shown decides.

    Args:
      name: of the figure, as `test/wer`.
      summaries: by label.
    """
    better = METRICS[name.split("/")[1]].better
    if better == "neither" or not summaries:
        return set()
    shown = {label: spread(s).split(" ")[0] for label, s in summaries.items()}
    first = (max if better == "higher" else min)(shown.values(), key=float)
    labels = {label for label, text in shown.items() if text == first}
    return set() if len(labels) == len(shown) else labels


def _title(metric: str) -> str:
    return f"{METRICS[metric].shown} ({'more' if higher_is_better(metric) else 'less'} is better)"


def _noise(comparison: Comparison) -> str:
    """Says which noise the intervals hold."""
    pairs = [pair for pairs in comparison.pairs.values() for pair in pairs]
    known = {source for pair in pairs for source in pair.difference.noise.sources}
    sentences = "other test sentences (paired bootstrap, 1,000 samples, the same for all runs)"
    seeds = "other seeds (Student's t)"
    if known == {"sentences"}:
        return f"Intervals hold the noise of {sentences}; that of {seeds} takes several of them."
    if known == {"seeds"}:
        return f"Intervals hold the noise of {seeds}; that of {sentences} isn't known."
    return f"Intervals hold two sources of noise, where they are known: {sentences} and {seeds}."


def _differences(metric: str, pairs: Sequence[Pair]) -> tuple[str, str, list[list[str]]]:
    """Returns a metric's name, the chart of its pairs, and their table."""
    better = "right" if higher_is_better(metric) else "left"
    across = f"difference in {METRICS[metric].shown}; the first is better to the {better}"
    intervals, rows = [], []
    wide = any(len(pair.first + pair.second) > WIDEST for pair in pairs)
    for number, pair in enumerate(pairs, 1):
        difference, name = pair.difference, f"{pair.first} − {pair.second}"
        if wide:
            name = f"{number}: {name}"
        low, high, label = difference.low, difference.high, str(number) if wide else name
        intervals.append(plots.Interval(label, difference.value, low, high))
        rows.append(
            [
                name,
                f"{difference.value:.3g}",
                _range(low, high),
                " and ".join(difference.noise.sources) or "unknown",
                _p(difference.p),
                _p(pair.adjusted_p),
                "–" if math.isnan(pair.smallest) else f"{pair.smallest:.3g}",
            ]
        )
    return METRICS[metric].shown, plots.intervals(intervals, across), rows


def _curves(comparison: Comparison) -> list[str]:
    """Draws figures against the step, one curve a configuration, with a band over its seeds."""
    configurations, charts = comparison.results.configurations, []
    metric = configurations[0].runs[0].config.train.metric
    for name in dict.fromkeys((f"dev/{comparison.metric}", f"dev/{metric}", "train/loss")):
        curves = [curve for c in configurations if (curve := _training_curve(c, name))]
        if curves:
            charts.append(plots.training_curves(curves, name))
    return charts


def _training_curve(configuration: Configuration, name: str) -> plots.Curve | None:
    """Returns the mean of a figure over seeds at the steps that all of them have."""
    runs = [_points(run, name) for run in configuration.runs]
    steps = sorted(set.intersection(*(set(points) for points in runs)))
    if not steps:
        return None
    return _curve(configuration.label, steps, [[points[s] for points in runs] for s in steps])


def _points(run: Run, name: str) -> dict[int, float]:
    values = {line["step"]: line.get(name) for line in run.lines}
    return {step: float(v) for step, v in values.items() if isinstance(v, int | float)}


def _curve(label: str, xs: Sequence[float], values: Sequence[Sequence[float]]) -> plots.Curve:
    summaries = [significance.summary(of_seeds) for of_seeds in values]
    low, high = ([s.mean + sign * s.deviation for s in summaries] for sign in (-1, 1))
    if all(s.mean >= 0 for s in summaries):
        low = [max(value, 0.0) if math.isfinite(value) else value for value in low]
    return plots.Curve(label, xs, [s.mean for s in summaries], low, high)


def _lengths(comparison: Comparison) -> str:
    """Draws the deciding figure by source length (Bahdanau et al. 2014, Figure 2)."""
    test_set, metric = comparison.test_set, comparison.metric
    if test_set is None:
        return ""
    curves, names = [], []
    for configuration in comparison.results.configurations:
        sums = [comparison.sums[run.name][metric] for run in configuration.runs]
        buckets = length_curve(test_set.words, sums)
        names = [bucket.title for bucket in buckets]
        values, low, high = zip(*(bucket.figure for bucket in buckets), strict=True)
        curves.append(plots.Curve(configuration.label, range(len(names)), values, low, high))
    return plots.length_curves(curves, names, f"{METRICS[metric].title}, {test_set.name}")


def _cells(runs: Sequence[Run]) -> tuple[list[str], list[tuple[str, list[str], str]]]:
    """Returns the fields that differ, and of each run its name, its values of them, and all."""
    settings = [run.settings for run in runs]
    seeds = [s for s in SEEDS if len({each.get(s) for each in settings}) > 1]
    names = [*differing(settings), *seeds]
    rows = [
        (run.name, [str(run.settings.get(name, "–")) for name in names], to_json(run.config))
        for run in runs
    ]
    return names, rows


def _costs(comparison: Comparison) -> list[list[str]]:
    rows = []
    for label, cost in comparison.costs.items():
        step = "–" if math.isnan(cost.step_seconds) else f"{1000 * cost.step_seconds:,.1f}"
        peak = "–" if math.isnan(cost.peak_bytes) else f"{cost.peak_bytes / 2**20:,.0f}"
        rows.append([label, count(cost.parameters), step, count(cost.tokens_per_second), peak])
    return rows


def _front(comparison: Comparison, quantity: str, costs: dict[str, float]) -> str:
    """Draws the deciding figure against a cost by configuration; NaN isn't drawn."""
    metric = comparison.metric
    summaries = comparison.summaries.get(f"{comparison.split}/{metric}", {})
    labels = [label for label in costs if label in summaries and math.isfinite(costs[label])]
    if not labels:
        return ""
    sign = 1 if higher_is_better(metric) else -1
    qualities = [sign * summaries[label].mean for label in labels]
    known = [costs[label] for label in labels]
    marks = [
        plots.Mark(label, costs[label], summaries[label].mean, is_on_front(n, qualities, known))
        for n, label in enumerate(labels)
    ]
    return plots.front(marks, quantity, METRICS[metric].shown)


def _facts(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """Returns what the runs were made with, by its name: each different value once."""
    starts = [run.manifest for run in runs]

    def different(field: str, shown: Any) -> list[str]:
        return list(dict.fromkeys(shown(start.get(field)) for start in starts))

    def listed(facts: dict | None) -> str:
        return ", ".join(f"{name} {value}" for name, value in (facts or {}).items())

    return [
        ("experiment", different("experiment", listed)),
        ("code", different("git", json.dumps)),
        ("versions", different("versions", listed)),
        ("devices", different("devices", listed)),
        ("data", different("fingerprints", listed)),
    ]


def _range(low: float, high: float) -> str:
    return "–" if math.isnan(low) else f"{low:.3g} to {high:.3g}"


def _p(value: float) -> str:
    if math.isnan(value):
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"
