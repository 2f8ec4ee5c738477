"""The same few sentences, decoded by every configuration of a sweep, with their alignments."""

from collections.abc import Sequence
from typing import NamedTuple

from bahdanau_jax.cell_results import Configuration, TestSet
from bahdanau_jax.plots import Alignment
from bahdanau_jax.results import tokens
from bahdanau_jax.run import open_run
from bahdanau_jax.token_store import TokenStore

SAMPLES = 3
LONGEST = 16  # source tokens, so that heat maps fit side by side


class Sample(NamedTuple):
    """A sentence and how it was attended to."""

    source: str
    reference: str
    alignments: list[Alignment]  # one a configuration; its title says which, and the output


def choose(test_set: TestSet) -> list[int]:
    """Returns the numbers of a few sentences: the longest that can be drawn, in their order."""
    short = [n for n, length in enumerate(test_set.lengths) if length <= LONGEST]
    short.sort(key=lambda n: (-test_set.lengths[n], n))
    # Not neighbours in length only: from the longest down to the middle.
    picked = short[: max(len(short) // 2, SAMPLES)]
    return sorted(picked[:: max(len(picked) // SAMPLES, 1)][:SAMPLES])


def sample_alignments(configurations: Sequence[Configuration], test_set: TestSet) -> list[Sample]:
    """Decodes a few sentences with the first run of each configuration.

    Args:
      configurations: with runs that still have their checkpoints.
      test_set: the sentences.

    Raises:
      InputError: a run has no good checkpoint.
    """
    numbers = choose(test_set)
    samples = [Sample(test_set.sources[n], test_set.references[n][0], []) for n in numbers]
    for configuration in configurations:
        run = open_run(configuration.runs[0].directory)
        source, target = run.vocabularies.source, run.vocabularies.target
        ids = [source.encode(sample.source) for sample in samples]
        outputs = run.evaluator.decode(
            run.params, TokenStore.from_pairs([(sentence, []) for sentence in ids])
        )
        for sample, sentence, output in zip(samples, ids, outputs, strict=True):
            across, down = tokens(source, sentence), tokens(target, output.tokens)
            title = f"{configuration.label}: {run.evaluator.text(output)}"
            sample.alignments.append(
                Alignment(output.alignment, across, down[: len(output.alignment)], title)
            )
    return samples
