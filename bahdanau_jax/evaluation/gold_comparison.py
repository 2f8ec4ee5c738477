"""A run's alignments against gold links, beside two baselines that need no training."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bahdanau_jax.data.corpus import source_text
from bahdanau_jax.data.gold_links import GoldLinks
from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.evaluation.alignment_measures import (
    LinkCounts,
    argmax_links,
    count_links,
    diagonal_links,
    threshold_links,
)
from bahdanau_jax.evaluation.given_pairs import GivenPairs, read_links
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.evaluation.word_alignment import WordAlignment, word_alignment, word_rows

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.5)


class GoldComparison(NamedTuple):
    """Links compared with the gold ones.

    Attributes:
      argmax: of each pair, the heaviest word of each target word.
      methods: sums over all pairs by how the links were chosen, `argmax` among them.
    """

    argmax: list[LinkCounts]
    methods: dict[str, LinkCounts]

    def figures(self) -> dict[str, float]:
        """Returns AER, precision and recall by argmax, and the baselines' AER, in percent."""
        argmax = self.methods["argmax"]
        return {
            "aer": argmax.aer,
            "alignment_precision": argmax.precision,
            "alignment_recall": argmax.recall,
            "aer_diagonal": self.methods["diagonal"].aer,
            "aer_uniform": self.methods["uniform"].aer,
        }


def with_gold(run: TrainedRun, split: EvaluationSplit, path: str) -> EvaluationSplit:
    """Returns the split with gold links from a file; raises InputError as `read_gold` does."""
    return split._replace(links=read_links(run, path, _texts(split)))


def compare_with_gold(run: TrainedRun, split: EvaluationSplit) -> GoldComparison:
    """Aligns a split's sources with their first references, and compares the links.

    Args:
      run: the trained model.
      split: with links.
    """
    assert split.links is not None
    source, target = run.vocabularies.source, run.vocabularies.target
    texts = _texts(split)
    given = GivenPairs(texts, [(source.encode(s), target.encode(t)) for s, t in texts])
    return count_methods(align_pairs(run, given), split.links)


def align_pairs(run: TrainedRun, given: GivenPairs) -> Iterator[WordAlignment]:
    """Yields the alignments of pairs in their order, by words; see `word_rows` for the rows."""
    query = run.config.model.attention.query
    alignments = dict(run.evaluator.alignments(run.params, given.store))
    for number, (texts, ids) in enumerate(zip(given.texts, given.ids, strict=True)):
        rows = word_rows(alignments[number], query)
        yield word_alignment(run.vocabularies, texts, ids, rows)


def _texts(split: EvaluationSplit) -> list[tuple[str, str]]:
    return [(source_text(example.source), example.references[0]) for example in split.examples]


def count_methods(alignments: Iterable[WordAlignment], gold: Sequence[GoldLinks]) -> GoldComparison:
    """Compares the links that each method chooses with the gold ones.

    Args:
      alignments: of each pair.
      gold: of each pair.
    """
    argmax, methods = [], {}
    for alignment, known in zip(alignments, gold, strict=True):
        chosen = {"argmax": argmax_links(alignment.weights)}
        for threshold in THRESHOLDS:
            chosen[f"threshold {threshold}"] = threshold_links(alignment.weights, threshold)
        sizes = len(alignment.source), len(alignment.target)
        chosen["diagonal"] = diagonal_links(*sizes)
        chosen["uniform"] = argmax_links(alignment.uniform)
        for name, links in chosen.items():
            counts = count_links(links, known)
            methods[name] = methods.get(name, LinkCounts()) + counts
            if name == "argmax":
                argmax.append(counts)
    return GoldComparison(argmax, methods)
