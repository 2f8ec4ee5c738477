"""What a trained run shows of itself: figures of splits, in parts too, outputs and alignments."""

import contextlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import jax

from bahdanau_jax.data.corpus import source_text
from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.durable import file_digest, write_atomically
from bahdanau_jax.evaluation import breakdown, metrics, significance
from bahdanau_jax.evaluation.decoding import Output, alignment_json
from bahdanau_jax.evaluation.evaluator import Measured
from bahdanau_jax.evaluation.gold_comparison import GoldComparison, compare_with_gold
from bahdanau_jax.evaluation.trained_run import TrainedRun, open_run_data
from bahdanau_jax.lines import one_column
from bahdanau_jax.special_ids import EOS
from bahdanau_jax.stored_files import read_json
from bahdanau_jax.terminal import say, say_nothing, visible
from bahdanau_jax.workdir import manifest, metrics_log

FOLDERS = OUTPUTS, ALIGNMENTS, EVALUATION = "outputs", "alignments", "evaluation"  # in a workdir
WRITTEN = "files"  # in evaluation/SPLIT.json: digests of what was written with it
HEAT_MAPS = 6  # drawn on one page
LONGEST_DRAWN = 40  # tokens a side; longer pairs make unreadable heat maps


def conclude(run: TrainedRun, directory: Path, splits: list[EvaluationSplit]) -> None:
    """Evaluates a finished run: writes result.json, then prints samples, figures, and where it is.

    Args:
      run: with the parameters of the best checkpoint.
      directory: the workdir.
      splits: the development split, from which samples are shown, then the test splits.
    """
    count = sum(leaf.size for leaf in jax.tree.leaves(run.params))
    result: dict[str, float | str] = {"step": run.step, "parameters": count}
    result["start"] = len(manifest.read_starts(directory))
    result["run"] = manifest.identify(directory).get("id", "")
    result[metrics_log.METRICS] = metrics_log.written(directory).mark
    shown: list[Output] = []
    for number, split in enumerate(splits):
        figures, outputs = evaluate_split(run, directory, split)
        result |= {f"{split.name}/{name}": value for name, value in figures.items()}
        if number == 0:
            shown = outputs
    path = draw(run, directory, splits[0], shown)
    metrics_log.write_result(directory, result)
    # Only here: nothing that can go wrong in printing keeps a run from its result.
    _print_samples(run, splits[0], shown)
    for split in splits:
        figures = {
            name.removeprefix(f"{split.name}/"): value
            for name, value in result.items()
            if name.startswith(f"{split.name}/")
        }
        print_figures(split.name, figures)
        print_parts(directory, split.name)
    say(f"alignments drawn in {path}; figures in {directory / metrics_log.RESULT}")


def evaluate_split(
    run: TrainedRun, directory: Path, split: EvaluationSplit
) -> tuple[dict[str, float | str], list[Output]]:
    """Evaluates a split; saves its outputs, their alignments, and its figures in parts.

    Args:
      run: the trained model.
      directory: the workdir.
      split: the split.

    Returns:
      Figures by name, and the outputs in the split's order.
    """
    say(f"evaluating {len(split.examples):,} examples of {split.name} (parameters of {run.step:,})")
    measured = run.evaluator.measure(run.params, split)
    figures = run.evaluator.figures(split, measured)
    comparison = None
    if split.links is not None:
        training = open_run_data(directory, run.config, say_nothing).corpus.pairs()
        comparison = compare_with_gold(run, split, training)
        figures |= comparison.figures()
    write_outputs(run, directory, split, measured)
    write_parts(run, directory, split, measured, comparison)
    return figures, measured.outputs


def draw(run: TrainedRun, directory: Path, split: EvaluationSplit, outputs: list[Output]) -> Path:
    """Draws the alignments of a few outputs; returns the picture's path.

    The longest are drawn of those that are short enough to read: they show the most.
    """
    # Imported here: Matplotlib would make every start longer.
    from bahdanau_jax.reports import heat_maps

    shown = [
        (len(output.tokens), number)
        for number, output in enumerate(outputs)
        if output.ended and len(output.alignment) and max(output.alignment.shape) <= LONGEST_DRAWN
    ]
    source_side, target_side = run.vocabularies.source, run.vocabularies.target
    alignments = []
    for _, number in sorted(shown, reverse=True)[: 40 * HEAT_MAPS : 40]:
        output, source = outputs[number], split.examples[number].source
        alignments.append(
            heat_maps.Alignment(
                output.alignment,
                source_side.tokens([*source_side.encode(source), EOS]),
                target_side.tokens([*output.tokens, EOS]),
                source,
            )
        )
    path = directory / "alignments" / f"{split.name}.png"
    path.parent.mkdir(exist_ok=True)
    if alignments:
        heat_maps.heat_maps(path, alignments, columns=3)
    return path


def one_line(figures: dict[str, float | str]) -> str:
    """Returns figures on one line, for a person: numbers only."""
    shown = {name: x for name, x in figures.items() if isinstance(x, float)}
    return "  ".join(f"{name} {value:.4g}" for name, value in shown.items())


def print_figures(name: str, figures: dict[str, float | str]) -> None:
    """Prints a split's figures on standard output, one a line, signatures beside their scores."""
    for figure, value in figures.items():
        if figure.endswith("_signature"):
            continue
        shown = f"{value:.4f}" if isinstance(value, float) else value
        signature = figures.get(f"{figure}_signature", "")
        print(f"{name}/{figure}\t{shown}" + (f"\t{signature}" if signature else ""), flush=True)


def print_parts(directory: Path, name: str) -> None:
    """Prints a split's intervals, and its figures by source length and other parts."""
    for line in part_lines(directory, name):
        print(visible(line), flush=True)


def _print_samples(run: TrainedRun, split: EvaluationSplit, outputs: list[Output]) -> None:
    """Prints evenly spaced examples with their outputs and references."""
    count = min(run.config.evaluation.samples, len(outputs))
    for sample in range(count):
        number = sample * len(outputs) // count
        example, text = split.examples[number], run.evaluator.text(outputs[number])
        mark = "=" if metrics.is_match(text, example.references) else "≠"
        line = f"{example.source}\t{text}\t{mark} {' | '.join(example.references)}"
        print(visible(line), flush=True)


def write_outputs(
    run: TrainedRun, directory: Path, split: EvaluationSplit, measured: Measured
) -> None:
    """Writes `outputs/SPLIT.txt`, one output a line, and `alignments/SPLIT.jsonl`.

    A line of alignments has the tokens of both sides, their end marks too, and the weights, one
    list a step: row i is the step that produced token i.
    """
    lines = [one_column(run.evaluator.text(output)) + "\n" for output in measured.outputs]
    outputs, alignments = _written(split.name)
    _write(directory / outputs, lines)
    source = run.vocabularies.source
    lines = [
        alignment_json(run.vocabularies, source.encode(source_text(example.source)), output) + "\n"
        for example, output in zip(split.examples, measured.outputs, strict=True)
    ]
    _write(directory / alignments, lines)


def _written(split: str) -> tuple[str, str]:
    """Returns where a split's outputs and their alignments lie in a workdir."""
    return f"{OUTPUTS}/{split}.txt", f"{ALIGNMENTS}/{split}.jsonl"


def changed(directory: Path, split: str) -> list[str]:
    """Returns the names of a split's files that aren't what its evaluation wrote.

    Args:
      directory: the workdir.
      split: a split's name; one that an older version has evaluated has nothing to compare with.
    """
    try:
        digests = dict(read_json(directory / EVALUATION / f"{split}.json")[WRITTEN])
    except (FileNotFoundError, KeyError):
        return []
    except (OSError, ValueError, TypeError):
        return [f"{EVALUATION}/{split}.json"]
    names = []
    for name in _written(split):
        with contextlib.suppress(OSError):
            if file_digest(directory / name) == digests.get(name):
                continue
        if name in digests:
            names.append(name)
    return names


def write_parts(
    run: TrainedRun,
    directory: Path,
    split: EvaluationSplit,
    measured: Measured,
    comparison: GoldComparison | None,
) -> None:
    """Writes a split's figures in parts, draws them by source length, and likelihoods by sentence.

    `evaluation/SPLIT.json` has the parts. `evaluation/SPLIT-likelihood.tsv` has a line for each
    sentence: -log p of its references in nats, and their tokens, end marks counted.

    Args:
      run: the trained model.
      directory: the workdir.
      split: the split.
      measured: what the model made of it.
      comparison: of the alignments with gold links; None where there are none.
    """
    # Imported here: Matplotlib would make every start longer.
    from bahdanau_jax.reports import plots

    scoring = metrics.Scoring.of(run.config)
    texts = [run.evaluator.text(output) for output in measured.outputs]
    sums = breakdown.split_sums(scoring, texts, split, *measured.likelihood)
    sources = [example.source for example in split.examples]
    lengths = breakdown.source_lengths(run.vocabularies.source, sources)
    with_links = dict(sums)
    if comparison is not None:
        with_links["aer"] = breakdown.link_sums(comparison.argmax)
    parts: dict[str, Any] = {
        WRITTEN: {
            name: file_digest(directory / name)
            for name in _written(split.name)
            if (directory / name).exists()
        },
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
    rows = sums["perplexity"].values.tolist()
    lines = [f"{nll!r}\t{tokens:.0f}\n" for nll, tokens in rows]
    _write(directory / breakdown.likelihood_file(split.name), lines)
    metric = metrics.compared(scoring.kind)[0]
    buckets = breakdown.length_curve(lengths, [sums[metric.name]])
    plots.by_length(
        folder / f"{split.name}-length.png",
        [bucket.title for bucket in buckets],
        {split.name: [bucket.figure.value for bucket in buckets]},
        metric.title,
        {split.name: [(bucket.figure.low, bucket.figure.high) for bucket in buckets]},
    )


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
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(lines))
