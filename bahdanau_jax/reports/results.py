"""What a trained run shows of itself: figures of splits, sample outputs, heat maps, result.json."""

from pathlib import Path

import jax

from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.evaluation.decoding import Output
from bahdanau_jax.evaluation.gold_comparison import compare_with_gold
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.reports import evaluation_report
from bahdanau_jax.special_ids import EOS
from bahdanau_jax.terminal import say
from bahdanau_jax.workdir import metrics_log

HEAT_MAPS = 6  # drawn on one page
LONGEST_DRAWN = 40  # tokens a side; longer pairs make unreadable heat maps


def conclude(run: TrainedRun, directory: Path, splits: list[EvaluationSplit]) -> None:
    """Evaluates a finished run: writes result.json, prints figures, samples and where they lie.

    Args:
      run: with the parameters of the best checkpoint.
      directory: the workdir.
      splits: the development split, from which samples are shown, then the test splits.
    """
    count = sum(leaf.size for leaf in jax.tree.leaves(run.params))
    result: dict[str, float | str] = {"step": run.step, "parameters": count}
    for number, split in enumerate(splits):
        figures, outputs = evaluate_split(run, directory, split)
        result |= {f"{split.name}/{name}": value for name, value in figures.items()}
        if number == 0:
            _print_samples(run, split, outputs)
            path = draw(run, directory, split, outputs)
    metrics_log.write_result(directory, result)
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
    comparison = None if split.links is None else compare_with_gold(run, split)
    if comparison is not None:
        figures |= comparison.figures()
    evaluation_report.write_outputs(run, directory, split, measured)
    evaluation_report.write_parts(run, directory, split, measured, comparison)
    return figures, measured.outputs


def draw(run: TrainedRun, directory: Path, split: EvaluationSplit, outputs: list[Output]) -> Path:
    """Draws the alignments of a few outputs; returns the picture's path.

    The longest are drawn of those that are short enough to read: they show the most.
    """
    # Imported here: Matplotlib would make every start longer.
    from bahdanau_jax.reports import plots

    shown = [
        (len(output.tokens), number)
        for number, output in enumerate(outputs)
        if output.ended and max(output.alignment.shape) <= LONGEST_DRAWN
    ]
    source_side, target_side = run.vocabularies.source, run.vocabularies.target
    alignments = []
    for _, number in sorted(shown, reverse=True)[: 40 * HEAT_MAPS : 40]:
        output, source = outputs[number], split.examples[number].source
        alignments.append(
            plots.Alignment(
                output.alignment,
                source_side.tokens([*source_side.encode(source), EOS]),
                target_side.tokens([*output.tokens, EOS]),
                source,
            )
        )
    path = directory / "alignments" / f"{split.name}.png"
    path.parent.mkdir(exist_ok=True)
    if alignments:
        plots.heat_maps(path, alignments, columns=3)
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
    for line in evaluation_report.part_lines(directory, name):
        print(line, flush=True)


def _print_samples(run: TrainedRun, split: EvaluationSplit, outputs: list[Output]) -> None:
    """Prints evenly spaced examples with their outputs and references."""
    count = min(run.config.evaluation.samples, len(outputs))
    for sample in range(count):
        number = sample * len(outputs) // count
        example, text = split.examples[number], run.evaluator.text(outputs[number])
        mark = "=" if text in example.references else "≠"
        print(f"{example.source}\t{text}\t{mark} {' | '.join(example.references)}", flush=True)
