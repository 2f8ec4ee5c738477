"""What a trained run shows of itself: figures of splits, sample outputs, heat maps, result.json."""

from pathlib import Path

import jax

from bahdanau_jax import plots, report
from bahdanau_jax.data import EvaluationSplit
from bahdanau_jax.decoding import Output
from bahdanau_jax.progress import say
from bahdanau_jax.run import TrainedRun
from bahdanau_jax.vocabulary import EOS
from bahdanau_jax.workdir import write_atomically

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
    report.write_result(directory, result)
    for split in splits:
        figures = {
            name.removeprefix(f"{split.name}/"): value
            for name, value in result.items()
            if name.startswith(f"{split.name}/")
        }
        print_figures(split.name, figures)
    say(f"alignments drawn in {path}; figures in {directory / report.RESULT}")


def evaluate_split(
    run: TrainedRun, directory: Path, split: EvaluationSplit
) -> tuple[dict[str, float | str], list[Output]]:
    """Evaluates a split and saves its outputs, one a line, in `outputs/SPLIT.txt`.

    Args:
      run: the trained model.
      directory: the workdir.
      split: the split.

    Returns:
      Figures by name, and the outputs in the split's order.
    """
    say(f"evaluating {len(split.examples):,} examples of {split.name} (parameters of {run.step:,})")
    figures, outputs = run.evaluator.evaluate(run.params, split)
    folder = directory / "outputs"
    folder.mkdir(exist_ok=True)
    lines = [run.evaluator.text(output) + "\n" for output in outputs]
    write_atomically(folder / f"{split.name}.txt", "".join(lines))
    return figures, outputs


def draw(run: TrainedRun, directory: Path, split: EvaluationSplit, outputs: list[Output]) -> Path:
    """Draws the alignments of a few outputs; returns the picture's path.

    The longest are drawn of those that are short enough to read: they show the most.
    """
    shown = [
        (len(output.tokens), number)
        for number, output in enumerate(outputs)
        if output.ended and max(output.alignment.shape) <= LONGEST_DRAWN
    ]
    alignments = []
    for _, number in sorted(shown, reverse=True)[: 40 * HEAT_MAPS : 40]:
        output, source = outputs[number], split.examples[number].source
        alignments.append(
            plots.Alignment(
                output.alignment,
                tokens(run.vocabularies.source, run.vocabularies.source.encode(source)),
                tokens(run.vocabularies.target, output.tokens),
                source,
            )
        )
    path = directory / "alignments" / f"{split.name}.png"
    path.parent.mkdir(exist_ok=True)
    if alignments:
        plots.heat_maps(path, alignments, columns=3)
    return path


def tokens(vocabulary, ids: list[int]) -> list[str]:
    """Returns the tokens of a sentence and a mark for its end, as an alignment's axis has them."""
    return [*vocabulary.tokens(ids), *vocabulary.tokens([EOS])]


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


def _print_samples(run: TrainedRun, split: EvaluationSplit, outputs: list[Output]) -> None:
    """Prints evenly spaced examples with their outputs and references."""
    count = min(run.config.evaluation.samples, len(outputs))
    for sample in range(count):
        number = sample * len(outputs) // count
        example, text = split.examples[number], run.evaluator.text(outputs[number])
        mark = "=" if text in example.references else "≠"
        print(f"{example.source}\t{text}\t{mark} {' | '.join(example.references)}", flush=True)
