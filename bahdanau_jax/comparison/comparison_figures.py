"""The figures of a comparison's report, each a piece of HTML with its charts."""

import html
import math
from collections.abc import Sequence

import numpy as np

from bahdanau_jax.comparison.compare import Comparison, is_on_front
from bahdanau_jax.comparison.results import Configuration, Run
from bahdanau_jax.comparison.sample_alignments import Sample
from bahdanau_jax.evaluation import significance
from bahdanau_jax.evaluation.metrics import METRICS, LengthBucket, by_length, higher_is_better
from bahdanau_jax.reports import charts

BUCKETS = 8  # of source lengths, about


def curves(comparison: Comparison) -> str:
    """Draws figures against the step, one curve a configuration, with a band over its seeds."""
    configurations = comparison.results.configurations
    figures = []
    metric = configurations[0].runs[0].config.train.metric
    for name in dict.fromkeys((f"dev/{comparison.metric}", f"dev/{metric}", "train/loss")):
        series = [s for c in configurations if (s := _curve(c, name))]
        if series:
            chart = charts.lines(series, "step", name)
            figures.append(f"<figure>{chart}{_legend(configurations)}</figure>")
    if not figures:
        return ""
    return (
        f'<h2>Learning curves</h2><div class="pair">{"".join(figures)}</div>'
        '<p class="muted">Mean over seeds; the band is one standard deviation on each side.</p>'
    )


def _curve(configuration: Configuration, name: str) -> charts.Series | None:
    """Returns the mean of a figure over seeds at the steps that all of them have."""
    points = [_points(run, name) for run in configuration.runs]
    steps = sorted(set.intersection(*(set(p) for p in points)))
    if not steps:
        return None
    return _series(configuration.label, steps, [[p[s] for p in points] for s in steps])


def _points(run: Run, name: str) -> dict[int, float]:
    found = {line["step"]: line.get(name) for line in run.lines}
    return {step: float(v) for step, v in found.items() if isinstance(v, int | float)}


def _series(label: str, xs: Sequence[float], values: Sequence[Sequence[float]]) -> charts.Series:
    found = [significance.summary(v) for v in values]
    low, high = ([s.mean + sign * s.deviation for s in found] for sign in (-1, 1))
    if all(s.mean >= 0 for s in found):
        low = [max(value, 0.0) if math.isfinite(value) else value for value in low]
    return charts.Series(label, xs, [s.mean for s in found], low, high)


def lengths(comparison: Comparison) -> str:
    """Draws the deciding figure by source length (Bahdanau et al. 2014, Figure 2)."""
    test_set, metric = comparison.test_set, comparison.metric
    if test_set is None:
        return ""
    limits = length_limits(test_set.lengths)
    series, names = [], []
    for configuration in comparison.results.configurations:
        by_run = []
        for run in configuration.runs:
            buckets = by_length(test_set.lengths, limits, comparison.sums[run.name][metric].figure)
            names = [f"{_range(b)}\n({b.sentences:,})" for b in buckets]
            by_run.append([bucket.score for bucket in buckets])
        places = list(map(float, range(len(names))))
        series.append(_series(configuration.label, places, list(zip(*by_run, strict=True))))
    chart = charts.lines(
        series, "source tokens (sentences)", f"{METRICS[metric].shown}, {test_set.name}", names
    )
    legend = _legend(comparison.results.configurations)
    return f"<h2>Quality by source length</h2><figure>{chart}{legend}</figure>"


def _range(bucket: LengthBucket) -> str:
    if bucket.high is None:
        return f"≥ {bucket.low}"
    return f"{bucket.low}–{bucket.high}" if bucket.high > bucket.low else str(bucket.low)


def length_limits(lengths: Sequence[int]) -> list[int]:
    """Returns the longest length of each bucket but the last: even steps, rare lengths together.

    Args:
      lengths: of all sentences, at least one.
    """
    low, high = np.quantile(lengths, [0.0, 0.99])
    step = max(round((high - low) / BUCKETS), 1)
    step = next(s for s in (1, 2, 3, 5, 10, 20, 50, 100, 10**9) if s >= step)
    first = (int(low) // step + 1) * step
    return list(range(first, max(int(high), first + 1), step))


def alignments(samples: Sequence[Sample]) -> str:
    """Draws the alignments of the same sentences side by side."""
    parts = []
    for sample in samples:
        maps = "".join(
            f"<figure>{charts.heat_map(a.weights, a.source, a.target)}"
            f"<figcaption>{html.escape(a.title)}</figcaption></figure>"
            for a in sample.alignments
        )
        parts.append(
            f"<h3>{html.escape(sample.source)}</h3><p class='muted'>reference: "
            f"{html.escape(sample.reference)}</p><div class='maps'>{maps}</div>"
        )
    if not parts:
        return ""
    return (
        "<h2>The same sentence, by every configuration</h2><p class='muted'>Source across, output "
        "down; the darker (in dark mode: the lighter), the more weight. One seed each.</p>"
        + "".join(parts)
    )


def pareto(comparison: Comparison, quantity: str, costs: dict[str, float]) -> str:
    """Draws the deciding figure against a cost.

    Args:
      comparison: the figures.
      quantity: what the cost is.
      costs: by configuration, less is better; NaN isn't drawn.
    """
    summaries = comparison.summaries.get(f"{comparison.split}/{comparison.metric}", {})
    labels = [k for k in costs if k in summaries and math.isfinite(costs[k])]
    if not labels:
        return ""
    sign = 1 if higher_is_better(comparison.metric) else -1
    qualities = [sign * summaries[label].mean for label in labels]
    front = [
        is_on_front(n, qualities, [costs[label] for label in labels]) for n in range(len(labels))
    ]
    marks = [
        charts.Mark(label, costs[label], summaries[label].mean, best)
        for label, best in zip(labels, front, strict=True)
    ]
    chart = charts.scatter(marks, quantity, METRICS[comparison.metric].shown)
    return (
        f"<figure>{chart}<figcaption>Joined and bold: the Pareto front, which no other "
        "configuration beats in both.</figcaption></figure>"
    )


def _legend(configurations: Sequence[Configuration]) -> str:
    items = "".join(
        f'<span><i style="background: var(--c{n % charts.COLOURS})"></i>'
        f"{html.escape(c.label)}</span>"
        for n, c in enumerate(configurations)
    )
    return f'<div class="legend">{items}</div>'
