"""Which configuration of a sweep is better, by how much, and is it more than noise?"""

import csv
import io
import itertools
import math
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bahdanau_jax.comparison.results import (
    Configuration,
    Run,
    SweepResults,
    TestSet,
    read_results,
    read_test_set,
)
from bahdanau_jax.evaluation import significance
from bahdanau_jax.evaluation.metrics import higher_is_better
from bahdanau_jax.evaluation.sentence_scores import SentenceSums, sentence_sums
from bahdanau_jax.evaluation.significance import Difference, Summary

# Names of figures that stand in tables, in this order, where a result has them.
SHOWN = ("wer", "per", "bleu", "chrf", "ter", "exact_match", "nll_per_token", "aer")
SHOWN += ("alignment_accuracy", "entropy", "end_weight", "unattended")
ALL_PAIRS = 10  # of more configurations, each is compared with the best alone


class Pair(NamedTuple):
    """Two configurations, one figure."""

    first: str
    second: str
    found: Difference  # first minus second
    adjusted_p: float
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
      test_set: the split's sentences, None where they can't be had.
      sums: what each run's sentences add to each metric, by the run's name.
    """

    results: SweepResults
    split: str
    metric: str
    summaries: dict[str, dict[str, Summary]]
    pairs: dict[str, list[Pair]]
    costs: dict[str, Cost]
    test_set: TestSet | None
    sums: dict[str, dict[str, SentenceSums]]


def make_comparison(directory: Path, say: Callable[[str], None]) -> Comparison:
    """Computes all figures of a sweep's report; writes nothing.

    Args:
      directory: the sweep's workdir.
      say: told what takes long, and what is missing.
    """
    results = read_results(directory)
    configurations = results.configurations
    runs = [run for configuration in configurations for run in configuration.runs]
    split = _test_split(runs)
    kind = runs[0].config.evaluation.metrics
    test_set = read_test_set(configurations, split, say)
    sums: dict[str, dict[str, SentenceSums]] = {}
    if test_set is not None:
        say(f"comparing {len(test_set.sources):,} sentences of {split} in {len(runs)} runs")
        for run in runs:
            sums[run.name] = sentence_sums(kind, run.outputs(split) or [], test_set.references)
    metrics = ["wer", "per"] if kind == "error_rate" else ["bleu", "chrf"]
    metrics.append("nll_per_token")
    return Comparison(
        results,
        split,
        metrics[0],
        _summaries(configurations),
        {m: pairs for m in metrics if (pairs := _pairs(configurations, split, m, sums))},
        {c.label: _cost(c) for c in configurations},
        test_set,
        sums,
    )


def to_csv(comparison: Comparison) -> str:
    """Returns one line a cell, finished or not: its fields and the figures of its result."""
    results = comparison.results
    runs = [run for configuration in results.configurations for run in configuration.runs]
    fields = list(dict.fromkeys(path for run in runs for path in run.values))
    numbers = [_numbers(run) for run in runs]
    figures = list(dict.fromkeys(name for found in numbers for name in found))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["cell", "status", *fields, *figures])
    for run, found in zip(runs, numbers, strict=True):
        values = [run.values.get(path, "") for path in fields]
        writer.writerow(
            [
                run.name,
                "finished",
                *values,
                *(repr(found[n]) if n in found else "" for n in figures),
            ]
        )
    for name, why in results.missing:
        writer.writerow([name, why, *[""] * (len(fields) + len(figures))])
    return stream.getvalue()


def to_markdown(comparison: Comparison) -> str:
    """Returns the answer for a terminal: what failed, the table, and a sentence for each pair.

    Nothing in it depends on the clock: the same runs give the same text, bit for bit.
    """
    results, lines = comparison.results, []
    for name, why in results.missing:
        lines.append(f"**{name}** {why}")
    if results.missing:
        lines.append("")
    names = [n for n in comparison.summaries if n.split("/")[0].startswith("test")]
    head = ["configuration", "seeds", "parameters", *names]
    lines.append("| " + " | ".join(head) + " |")
    lines.append("|---|" + "---:|" * (len(head) - 1))
    for configuration in results.configurations:
        cost = comparison.costs[configuration.label]
        row = [configuration.label, str(len(configuration.runs)), count(cost.parameters)]
        row += [
            spread(found[configuration.label]) if configuration.label in found else ""
            for found in map(comparison.summaries.__getitem__, names)
        ]
        lines.append("| " + " | ".join(row) + " |")
    pairs = comparison.pairs.get(comparison.metric, [])
    if pairs:
        lines += ["", *(f"- {pair.sentence}" for pair in pairs)]
    return "\n".join(lines)


def spread(found: Summary) -> str:
    """Returns `31.42 ± 0.25`, and the mean alone for a single seed."""
    if math.isnan(found.deviation):
        return f"{found.mean:.2f}" if abs(found.mean) >= 10 else f"{found.mean:.4f}"
    if abs(found.mean) >= 10:
        return f"{found.mean:.2f} ± {found.deviation:.2f}"
    return f"{found.mean:.4f} ± {found.deviation:.4f}"


def count(value: float) -> str:
    """Returns a whole number with its thousands apart, `–` for NaN."""
    return "–" if math.isnan(value) else f"{value:,.0f}"


def is_on_front(place: int, qualities: Sequence[float], costs: Sequence[float]) -> bool:
    """Returns whether no other is at least as good at both, and better at one.

    Args:
      place: which one is asked about.
      qualities: of all, more is better.
      costs: of all, less is better.
    """
    mine = (qualities[place], costs[place])
    return not any(
        q >= mine[0] and c <= mine[1] and (q, c) != mine
        for q, c in zip(qualities, costs, strict=True)
    )


def metric_name(metric: str) -> str:
    """Returns a metric's name for people, as `WER`."""
    known = {"bleu": "BLEU", "chrf": "chrF", "nll_per_token": "nats per token"}
    return known.get(metric, metric.upper() if len(metric) <= 4 else metric.replace("_", " "))


def command_lines(results: SweepResults) -> list[str]:
    """Returns the commands that made the sweep, as a shell reads them."""
    return list(dict.fromkeys(shlex.join(["python", *command]) for command in results.commands))


def _test_split(runs: Sequence[Run]) -> str:
    """Returns the first test split of the results, or the development split."""
    names = [name.split("/")[0] for name in runs[0].result if "/" in name]
    return next((name for name in names if name.startswith("test")), names[0] if names else "dev")


def _summaries(configurations: Sequence[Configuration]) -> dict[str, dict[str, Summary]]:
    names = dict.fromkeys(n for c in configurations for run in c.runs for n in run.result)
    shown = [n for n in names if n.count("/") == 1 and n.split("/")[1] in SHOWN]
    shown.sort(key=lambda n: SHOWN.index(n.split("/")[1]))
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
    """Compares configurations by a metric, all pairs of them unless there are many."""
    known = [c for c in configurations if c.figures(f"{split}/{metric}")]
    figures = {c.label: c.figures(f"{split}/{metric}") for c in known}
    samples: dict[str, np.ndarray] = {}
    if all(metric in sums.get(run.name, {}) for c in known for run in c.runs) and known:
        parts = [sums[run.name][metric] for c in known for run in c.runs]
        scores = significance.bootstrap([part.values for part in parts], parts[0].score)
        ends = np.cumsum([len(c.runs) for c in known])[:-1]
        samples = dict(zip([c.label for c in known], np.split(scores, ends), strict=True))
    labels = list(figures)
    if len(labels) <= ALL_PAIRS:
        chosen = list(itertools.combinations(labels, 2))
    else:
        sign = 1 if higher_is_better(metric) else -1
        best = max(labels, key=lambda label: sign * np.mean(figures[label]))
        chosen = [(best, label) for label in labels if label != best]
    found = [
        significance.difference(figures[a], figures[b], samples.get(a), samples.get(b))
        for a, b in chosen
    ]
    adjusted = significance.holm([f.p for f in found])
    name = metric_name(metric)
    return [
        Pair(a, b, f, p, significance.verdict(a, b, f, p, name, higher_is_better(metric)))
        for (a, b), f, p in zip(chosen, found, adjusted, strict=True)
    ]


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


def _numbers(run: Run) -> dict[str, int | float]:
    return {n: v for n, v in run.result.items() if isinstance(v, int | float)}
