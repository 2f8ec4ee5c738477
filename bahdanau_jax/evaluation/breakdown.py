"""Figures as sums over sentences, and so of a split's parts: by length, with unknown words.

What can be scored from sums can be scored for any sample of the sentences, which gives intervals.
"""

import bisect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bahdanau_jax.data.corpus import source_text
from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.data.vocabularies import Vocabularies, Vocabulary
from bahdanau_jax.evaluation import metrics, significance
from bahdanau_jax.evaluation.alignment_measures import LinkCounts
from bahdanau_jax.evaluation.metrics import Scoring
from bahdanau_jax.special_ids import UNK

BUCKETS = 8  # of source lengths, at most
STEPS = (1, 2, 5, 10, 20, 50, 100, 1000)  # words between two limits


class SentenceSums(NamedTuple):
    """What each sentence adds to a figure, and the figure that follows from sums.

    Attributes:
      values: float64[N, K].
      score: float64[..., K] -> float64[...], as in `metrics.METRICS`.
    """

    values: np.ndarray
    score: metrics.FromSums

    def figure(self, numbers: Sequence[int] | None = None) -> float:
        """Returns the figure over some sentences; over all if None."""
        chosen = self.values if numbers is None else self.values[list(numbers)]
        return float(self.score(chosen.sum(axis=0)))


def sentence_sums(
    scoring: Scoring, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, SentenceSums]:
    """Computes what the figures of `metrics.figures` are made of.

    Args:
      scoring: which figures, and of what symbols.
      texts: an output for each sentence.
      references: one or more for each sentence.

    Returns:
      `wer` and `per` or `cer`; or `bleu`, `chrf` and `ter`; with both `exact_match`.
    """
    if scoring.kind == "error_rate":
        return _error_rates(scoring, texts, references)
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    # Its own lower-level steps: the public ones start from text, for every sample again.
    streams = metrics.reference_streams(references)
    values: dict[str, Any] = {
        name: metric._extract_corpus_statistics(list(texts), streams)
        for name, metric in (
            ("bleu", BLEU(force=True, tokenize=scoring.tokenize)),
            ("chrf", CHRF()),
        )
    }
    values["ter"] = metrics.ter_counts(texts, references)
    values["exact_match"] = [
        (metrics.is_match(text, known), 1) for text, known in zip(texts, references, strict=True)
    ]
    return named_sums(values)


class Bucket(NamedTuple):
    """A figure over the sentences of some lengths."""

    name: str  # as `11-20` or `51+`
    sentences: int
    figure: significance.Estimate

    @property
    def title(self) -> str:
        """The lengths and the number of sentences, on two lines."""
        return f"{self.name}\nn={self.sentences:,}"


class Part(NamedTuple):
    """Some of a split's sentences."""

    name: str
    sentences: int
    figures: dict[str, float]  # by name


def split_sums(
    scoring: Scoring,
    texts: Sequence[str],
    split: EvaluationSplit,
    nll: np.ndarray,
    tokens: np.ndarray,
) -> dict[str, SentenceSums]:
    """Computes what each sentence of a split adds to its figures.

    Args:
      scoring: which figures, and of what symbols.
      texts: an output for each example.
      split: the split.
      nll: float64[N], nats of every reference, in the order of `EvaluationSplit.pairs`.
      tokens: int64[N], those of every reference, end marks counted.

    Returns:
      The figures of `sentence_sums` and `perplexity`.
    """
    references = [example.references for example in split.examples]
    examples = np.repeat(np.arange(len(references)), list(map(len, references)))
    losses = np.zeros((len(references), 2))
    np.add.at(losses, examples, np.stack([nll, tokens], axis=1))
    return sentence_sums(scoring, texts, references) | named_sums({"perplexity": losses})


def named_sums(values: dict[str, Any]) -> dict[str, SentenceSums]:
    """Joins what each sentence adds to figures with the rules of the table of metrics.

    Args:
      values: by a metric's name, N rows of K numbers; the metric has `from_sums`.
    """
    sums = {}
    for name, rows in values.items():
        rule = metrics.METRICS[name].from_sums
        assert rule is not None, name
        sums[name] = SentenceSums(np.asarray(rows, np.float64), rule)
    return sums


def likelihood_file(split: str) -> str:
    """Returns the path in a workdir of each sentence's -log p, nats, and tokens."""
    return f"evaluation/{split}-likelihood.tsv"


def link_sums(counts: Sequence[LinkCounts]) -> SentenceSums:
    """Returns what each pair adds to the alignment error rate."""
    return named_sums({"aer": [(c.found, c.sure, c.found_sure, c.found_possible) for c in counts]})[
        "aer"
    ]


def intervals(
    sums: dict[str, SentenceSums], resamples: int, seed: int = 0
) -> dict[str, tuple[float, float]]:
    """Returns limits of the 95 % interval of each figure over samples of the sentences.

    Args:
      sums: of each figure.
      resamples: samples, drawn with replacement (Koehn 2004); at least 1.
      seed: of the samples, the same ones for every figure.

    Returns:
      Low and high by figure, over the samples in which it is finite; nan where it never is.
    """
    limits = {}
    for name, (values, score) in sums.items():
        (scores,) = significance.bootstrap([values], score, resamples, seed)
        limits[name] = significance.quantiles(scores)
    return limits


class LengthBucket(NamedTuple):
    """A figure over the sentences whose source has `low` to `high` tokens, both included."""

    low: int
    high: int | None  # None: no upper limit
    sentences: int
    score: float

    @property
    def name(self) -> str:
        """The lengths, as `11-20`, `7` or `51+`."""
        if self.high is None:
            return f"{self.low}+"
        return f"{self.low}-{self.high}" if self.high > self.low else str(self.low)


def bucketed(
    source_lengths: Sequence[int],
    limits: Sequence[int],
    score: Callable[[list[int]], float],
) -> list[LengthBucket]:
    """Computes a figure apart for short and long sources (Bahdanau et al. 2014, Figure 2).

    Args:
      source_lengths: tokens of each source sentence, at least 1.
      limits: the longest length of each bucket but the last, ascending, as `[10, 20, 30]`.
      score: takes the indices of a bucket's sentences and returns the figure over them.

    Returns:
      The buckets that have sentences, from short to long.
    """
    members: list[list[int]] = [[] for _ in range(len(limits) + 1)]
    for index, length in enumerate(source_lengths):
        members[bisect.bisect_left(limits, length)].append(index)
    lows = [1, *(limit + 1 for limit in limits)]
    return [
        LengthBucket(low, high, len(indices), score(indices))
        for low, high, indices in zip(lows, [*limits, None], members, strict=True)
        if indices
    ]


def by_length(lengths: Sequence[int], sums: dict[str, SentenceSums]) -> list[Part]:
    """Computes all figures apart for short and long sources (Bahdanau et al. 2014, Figure 2).

    Args:
      lengths: words of each source.
      sums: of each figure.

    Returns:
      The buckets that have sentences, from short to long; a name is as `11-20` or `51+`.
    """
    limits = length_limits(lengths)
    parts: dict[str, Part] = {}
    for figure, values in sums.items():
        for bucket in bucketed(lengths, limits, values.figure):
            part = parts.setdefault(bucket.name, Part(bucket.name, bucket.sentences, {}))
            part.figures[figure] = bucket.score
    return list(parts.values())


def source_lengths(vocabulary: Vocabulary, sources: Sequence[str]) -> list[int]:
    """Returns the lengths by which quality is shown: words of each source, at least 1.

    Args:
      vocabulary: of the source; says what a word is.
      sources: the sentences.
    """
    return [max(len(vocabulary.words(source_text(source))), 1) for source in sources]


def length_curve(lengths: Sequence[int], runs: Sequence[SentenceSums]) -> list[Bucket]:
    """Computes a figure with its 95 % interval apart for short and long sources.

    Args:
      lengths: of all sentences, as from `source_lengths`.
      runs: of a figure, those of each seed.

    Returns:
      The buckets that have sentences, from short to long.
    """
    estimates = []

    def measured(numbers: list[int]) -> float:
        samples = significance.bootstrap([run.values[numbers] for run in runs], runs[0].score)
        estimates.append(significance.estimate([run.figure(numbers) for run in runs], samples))
        return estimates[-1].value

    buckets = bucketed(lengths, length_limits(lengths), measured)
    return [Bucket(b.name, b.sentences, e) for b, e in zip(buckets, estimates, strict=True)]


def length_limits(lengths: Sequence[int]) -> list[int]:
    """Returns the longest length of each bucket but the last: round numbers at even steps.

    Args:
      lengths: of all sentences, at least one. The longest twentieth may share the last bucket.
    """
    most = float(np.quantile(lengths, 0.95))
    step = next((step for step in STEPS if step * BUCKETS >= most), STEPS[-1])
    return list(range(step, int(most) + 1, step))


def by_unknown_words(
    split: EvaluationSplit, vocabularies: Vocabularies, sums: dict[str, SentenceSums]
) -> list[Part]:
    """Computes all figures apart for sentences with and without unknown words.

    As in Bahdanau et al. 2014, Table 1, a sentence is without if neither its source nor any of its
    references has one.

    Args:
      split: the split.
      vocabularies: which words they know.
      sums: of each figure, over the examples.

    Returns:
      The parts that have sentences.
    """
    members: dict[str, list[int]] = {"without": [], "with": []}
    for number, example in enumerate(split.examples):
        known = UNK not in vocabularies.source.encode(example.source) and not any(
            UNK in vocabularies.target.encode(reference) for reference in example.references
        )
        members["without" if known else "with"].append(number)
    return [
        Part(
            f"{name} unknown words",
            len(numbers),
            {figure: values.figure(numbers) for figure, values in sums.items()},
        )
        for name, numbers in members.items()
        if numbers
    ]


def to_json(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """Returns parts as a list of objects."""
    return [{"name": p.name, "sentences": p.sentences, **p.figures} for p in parts]


def _error_rates(
    scoring: Scoring, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, SentenceSums]:
    counts = [
        metrics.error_counts([scoring.symbols(text)], [[scoring.symbols(r) for r in known]])
        for text, known in zip(texts, references, strict=True)
    ]
    return named_sums(
        {
            "wer": [(c.wrong, c.sequences) for c in counts],
            scoring.by_symbol: [(c.edits, c.symbols) for c in counts],
            "exact_match": [(c.sequences - c.wrong, c.sequences) for c in counts],
        }
    )
