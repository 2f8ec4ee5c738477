"""What an evaluation of a split leaves behind: outputs, alignments, and its figures in parts."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.evaluation import breakdown, metrics, significance
from bahdanau_jax.evaluation.evaluator import Measured
from bahdanau_jax.evaluation.gold_comparison import GoldComparison
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.modes.translate import alignment_json
from bahdanau_jax.workdir import metrics_log
from bahdanau_jax.workdir.directory import write_atomically

OUTPUTS, ALIGNMENTS, EVALUATION = "outputs", "alignments", "evaluation"  # in the workdir


def write_outputs(
    run: TrainedRun, directory: Path, split: EvaluationSplit, measured: Measured
) -> None:
    """Writes `outputs/SPLIT.txt`, one output a line, and `alignments/SPLIT.jsonl`.

    A line of alignments has the tokens of both sides, their end marks too, and the weights, one
    list a step: row i is the step that produced token i.
    """
    lines = [run.evaluator.text(output) + "\n" for output in measured.outputs]
    _write(directory / OUTPUTS / f"{split.name}.txt", lines)
    source = run.vocabularies.source
    lines = [
        alignment_json(run.vocabularies, source.encode(example.source), output) + "\n"
        for example, output in zip(split.examples, measured.outputs, strict=True)
    ]
    _write(directory / ALIGNMENTS / f"{split.name}.jsonl", lines)


def write_parts(
    run: TrainedRun,
    directory: Path,
    split: EvaluationSplit,
    measured: Measured,
    comparison: GoldComparison | None,
) -> None:
    """Writes `evaluation/SPLIT.json`, figures in parts, and draws them by source length.

    Args:
      run: the trained model.
      directory: the workdir.
      split: the split.
      measured: what the model made of it.
      comparison: of the alignments with gold links; None where there are none.
    """
    # Imported here: Matplotlib would make every start longer.
    from bahdanau_jax.reports import plots

    kind = run.config.evaluation.metrics
    texts = [run.evaluator.text(output) for output in measured.outputs]
    sums = breakdown.split_sums(kind, texts, split, measured.likelihood)
    lengths = [len(run.vocabularies.source.words(example.source)) for example in split.examples]
    with_links = dict(sums)
    if comparison is not None:
        with_links["aer"] = breakdown.link_sums(comparison.argmax)
    parts: dict[str, Any] = {
        "intervals": breakdown.intervals(with_links, significance.RESAMPLES),
        "by_length": breakdown.to_json(breakdown.by_length(lengths, with_links)),
        "by_unknown_words": breakdown.to_json(
            breakdown.by_unknown_words(split, run.vocabularies, with_links)
        ),
    }
    if comparison is not None:
        parts["alignments"] = [
            {"name": name, "aer": c.aer, "precision": c.precision, "recall": c.recall}
            for name, c in comparison.methods.items()
        ]
    folder = directory / EVALUATION
    _write(folder / f"{split.name}.json", [metrics_log.to_json(parts)])
    name, quantity = ("wer", "WER, %") if kind == "error_rate" else ("bleu", "BLEU")
    buckets = metrics.by_length(lengths, breakdown.length_limits(lengths), sums[name].figure)
    plots.by_length(folder / f"{split.name}-length.png", {split.name: buckets}, quantity)


def part_lines(directory: Path, split: str) -> Iterator[str]:
    """Yields what `write_parts` wrote, as lines of columns for a person and for other programs."""
    parts = json.loads((directory / EVALUATION / f"{split}.json").read_text(encoding="utf-8"))
    for name, (low, high) in parts["intervals"].items():
        yield f"{split}, 95 % interval of {name}\t{_number(low)}\t{_number(high)}"
    for kind, title in (
        ("by_length", "source length "),
        ("by_unknown_words", ""),
        ("alignments", "alignments by "),
    ):
        for part in parts.get(kind, []):
            columns = [f"{name} {_number(x)}" for name, x in part.items() if name != "name"]
            yield "\t".join([f"{split}, {title}{part['name']}", *columns])


def _number(value: float | str) -> str:
    value = float(value)  # JSON has no nan: `metrics_log.to_json` writes it as text
    return f"{value:.0f}" if value.is_integer() and value < 1e9 else f"{value:.4f}"


def _write(path: Path, lines: Sequence[str]) -> None:
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, "".join(lines))
