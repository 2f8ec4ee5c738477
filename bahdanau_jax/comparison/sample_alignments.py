"""The same few sentences, as every configuration of a sweep translated and attended to them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bahdanau_jax.comparison.configurations import Configuration
from bahdanau_jax.comparison.results import TestSet
from bahdanau_jax.reports.evaluation_report import changed
from bahdanau_jax.stored_files import parse_json, read_text

SAMPLES = 3
LONGEST = 16  # source tokens, so that heat maps fit side by side


class Attended(NamedTuple):
    """One configuration's output for a sentence."""

    weights: np.ndarray  # float[T, S]
    source: list[str]  # S tokens
    target: list[str]  # T tokens
    title: str  # which configuration, and its output

    @property
    def rows(self) -> list[tuple[str, list[float]]]:
        """Each target token and its weights."""
        return list(zip(self.target, self.weights.tolist(), strict=True))


class Sample(NamedTuple):
    """A sentence and how it was attended to."""

    source: str
    reference: str
    alignments: list[Attended]  # one a configuration


def choose(test_set: TestSet) -> list[int]:
    """Returns the numbers of a few sentences: from the longest that can be drawn to the middle."""
    short = [n for n, length in enumerate(test_set.tokens) if length <= LONGEST]
    short.sort(key=lambda n: (-test_set.tokens[n], n))
    picked = short[: max(len(short) // 2, SAMPLES)]
    return sorted(picked[:: max(len(picked) // SAMPLES, 1)][:SAMPLES])


def sample_alignments(configurations: Sequence[Configuration], test_set: TestSet) -> list[Sample]:
    """Reads a few sentences' alignments from the first run of each configuration.

    Args:
      configurations: those whose run has no `alignments/SPLIT.jsonl` are left out.
      test_set: the sentences.
    """
    numbers = choose(test_set)
    samples = [Sample(test_set.sources[n], test_set.references[n][0], []) for n in numbers]
    for configuration in configurations:
        run = configuration.runs[0]
        outputs = run.outputs(test_set.name) or []
        lines = _lines(run.directory / "alignments" / f"{test_set.name}.jsonl")
        if len(lines) != len(test_set.sources) or changed(run.directory, test_set.name):
            continue
        try:
            of_run = [_attended(lines[n], f"{configuration.label}: {outputs[n]}") for n in numbers]
        except (ValueError, KeyError, TypeError):
            continue  # damaged
        for sample, attended in zip(samples, of_run, strict=True):
            sample.alignments.append(attended)
    return [sample for sample in samples if sample.alignments]


def _attended(line: str, label: str) -> Attended:
    pair = parse_json(line)
    shape = len(pair["target"]), len(pair["source"])
    weights = np.asarray(pair["alignment"], np.float64).reshape(shape)
    return Attended(weights, pair["source"], pair["target"], label)


def _lines(path: Path) -> list[str]:
    try:
        return read_text(path).split("\n")[:-1]
    except (OSError, ValueError):
        return []
