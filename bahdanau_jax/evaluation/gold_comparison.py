"""A run's alignments against gold links, beside baselines: two that know no word, and eflomal."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bahdanau_jax.data.corpus import source_text
from bahdanau_jax.data.gold_links import GoldLinks
from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.evaluation import statistical_alignment, symmetrization
from bahdanau_jax.evaluation.alignment_measures import (
    OFFSETS,
    LinkCounts,
    argmax_links,
    best_offset,
    count_links,
    diagonal_links,
    moved_links,
    threshold_links,
)
from bahdanau_jax.evaluation.given_pairs import GivenPairs, read_links
from bahdanau_jax.evaluation.trained_run import TrainedRun
from bahdanau_jax.evaluation.word_alignment import WordAlignment, word_alignment
from bahdanau_jax.terminal import say

THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.5)


class GoldComparison(NamedTuple):
    """Links compared with the gold ones.

    Attributes:
      argmax: of each pair, the heaviest word of each target word.
      methods: sums over all pairs by how the links were chosen, `argmax` among them.
      moved: sums over all pairs of the links by argmax, moved back by each of `OFFSETS`.
    """

    argmax: list[LinkCounts]
    methods: dict[str, LinkCounts]
    moved: dict[int, LinkCounts]

    def figures(self) -> dict[str, float]:
        """Returns AER, precision and recall by argmax, the offset, and the baselines' AER.

        All but `offset` are in percent; `aer_at_offset` is the AER of links moved back by it.
        """
        argmax, offset = self.methods["argmax"], best_offset(self.moved)
        return {
            "aer": argmax.aer,
            "alignment_precision": argmax.precision,
            "alignment_recall": argmax.recall,
            "offset": float("nan") if offset is None else float(offset),
            "aer_at_offset": argmax.aer if offset is None else self.moved[offset].aer,
            "aer_diagonal": self.methods["diagonal"].aer,
            "aer_uniform": self.methods["uniform"].aer,
        } | ({"aer_eflomal": self.methods["eflomal"].aer} if "eflomal" in self.methods else {})


def with_gold(
    run: TrainedRun, split: EvaluationSplit, path: str, base: int | None = None
) -> EvaluationSplit:
    """Returns the split with gold links from a file; raises InputError as `read_gold` does."""
    return split._replace(links=read_links(run, path, _texts(split), base))


def compare_with_gold(
    run: TrainedRun, split: EvaluationSplit, training: Iterable[tuple[str, str]] = ()
) -> GoldComparison:
    """Aligns a split's sources with their first references, and compares the links.

    Where eflomal is installed, it aligns the same pairs; a line on standard error says if not.

    Args:
      run: the trained model.
      split: with links.
      training: further pairs for eflomal to learn from, sources and targets.
    """
    assert split.links is not None
    source, target = run.vocabularies.source, run.vocabularies.target
    texts = _texts(split)
    given = GivenPairs(texts, [(source.encode(s), target.encode(t)) for s, t in texts])
    comparison = count_methods(align_pairs(run, given), split.links)
    if not statistical_alignment.installed():
        say(statistical_alignment.MISSING)
        return comparison
    say("aligning by eflomal, to compare with")

    def words(pairs: Iterable[tuple[str, str]]) -> list[statistical_alignment.Words]:
        return [(source.words(s), target.words(t)) for s, t in pairs]

    found = statistical_alignment.statistical_links(words(texts), words(training))
    return comparison._replace(methods=comparison.methods | _count_eflomal(found, split.links))


def _count_eflomal(
    found: Sequence[statistical_alignment.StatisticalLinks], gold: Sequence[GoldLinks]
) -> dict[str, LinkCounts]:
    """Compares eflomal's links of one direction, and of both, with the gold ones."""
    one = both = LinkCounts()
    for links, known in zip(found, gold, strict=True):
        one += count_links(links.forward, known)
        both += count_links(symmetrization.combine(*links, "grow-diag-final-and"), known)
    return {"eflomal": one, "eflomal, grow-diag-final-and": both}


def align_pairs(run: TrainedRun, given: GivenPairs) -> Iterator[WordAlignment]:
    """Yields the alignments of pairs in their order, by words."""
    alignments = dict(run.evaluator.alignments(run.params, given.store))
    for number, (texts, ids) in enumerate(zip(given.texts, given.ids, strict=True)):
        rows = alignments[number][:-1]  # the last step predicts the end mark
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
    moved = dict.fromkeys(OFFSETS, LinkCounts())
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
        for offset in OFFSETS:
            links = moved_links(alignment.weights, None, offset)
            moved[offset] += count_links(links, known)
    return GoldComparison(argmax, methods, moved)
