"""A comparison as text: the table of its cells, and the answer for a terminal."""

import contextlib
import csv
import io
import math
from typing import Any

from bahdanau_jax.comparison.compare import Comparison
from bahdanau_jax.comparison.configurations import Run
from bahdanau_jax.evaluation.metrics import METRICS
from bahdanau_jax.evaluation.significance import Summary


def to_csv(comparison: Comparison) -> str:
    """Returns one line a cell, finished or not: its fields and the figures of its result."""
    results = comparison.results
    again = {repeated.run.name: repeated.counted for repeated in results.repeated}
    runs = [*results.runs, *(repeated.run for repeated in results.repeated)]
    fields = list(dict.fromkeys(path for run in runs for path in run.values))
    numbers = [_numbers(run) for run in runs]
    figures = list(dict.fromkeys(name for of_run in numbers for name in of_run))
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")

    def write(*cells: Any) -> None:
        writer.writerow([_inert(str(cell)) for cell in cells])

    write("cell", "status", *fields, *figures)
    for run, of_run in zip(runs, numbers, strict=True):
        values = [run.values.get(path, "") for path in fields]
        write(
            run.name,
            f"counted as {again[run.name]}" if run.name in again else "finished",
            *values,
            *(repr(of_run[n]) if n in of_run else "" for n in figures),
        )
    for name, why in results.missing:
        write(name, why, *[""] * (len(fields) + len(figures)))
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
    if comparison.warnings:
        lines += [*(f"**Note** {warning}" for warning in comparison.warnings), ""]
    names = [n for n in comparison.summaries if n.split("/")[0].startswith("test")]
    head = ["configuration", "seeds", "parameters", *names]
    lines.append("| " + " | ".join(head) + " |")
    lines.append("|---|" + "---:|" * (len(head) - 1))
    for configuration in results.configurations:
        cost = comparison.costs[configuration.label]
        row = [configuration.label, str(len(configuration.runs)), count(cost.parameters)]
        row += [
            spread(summaries[configuration.label]) if configuration.label in summaries else ""
            for summaries in map(comparison.summaries.__getitem__, names)
        ]
        lines.append("| " + " | ".join(row) + " |")
    for metric, pairs in comparison.pairs.items():
        lines += ["", f"{METRICS[metric].shown} of {comparison.split}:", ""]
        lines += [f"- {pair.sentence}" for pair in pairs]
    return "\n".join(lines)


def spread(summary: Summary) -> str:
    """Returns `31.42 ± 0.25`, and the mean alone for a single seed."""
    if math.isnan(summary.deviation):
        return f"{summary.mean:.2f}" if abs(summary.mean) >= 10 else f"{summary.mean:.4f}"
    if abs(summary.mean) >= 10:
        return f"{summary.mean:.2f} ± {summary.deviation:.2f}"
    return f"{summary.mean:.4f} ± {summary.deviation:.4f}"


def count(value: float) -> str:
    """Returns a whole number with its thousands apart, `–` for NaN."""
    return "–" if math.isnan(value) else f"{value:,.0f}"


def _inert(cell: str) -> str:
    """Returns a cell's text such that no program takes it for a formula; a number stays one."""
    if not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    with contextlib.suppress(ValueError):
        float(cell)
        return cell
    return f"'{cell}"


def _numbers(run: Run) -> dict[str, int | float]:
    # Which start came to the end says nothing of the model.
    return {n: v for n, v in run.result.items() if isinstance(v, int | float) and n != "start"}
