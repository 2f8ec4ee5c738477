"""Figures as sums over sentences, and so of a split's parts: by length, with unknown words.

What can be scored from sums can be scored for any sample of the sentences, which gives intervals.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bahdanau_jax.data.pipeline import EvaluationSplit
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.evaluation import metrics, significance
from bahdanau_jax.evaluation.alignment_measures import LinkCounts
from bahdanau_jax.special_ids import UNK

BUCKETS = 8  # of source lengths, at most
STEPS = (1, 2, 5, 10, 20, 50, 100, 1000)  # words between two limits


class SentenceSums(NamedTuple):
    """What each sentence adds to a figure, and the figure that follows from sums.

    Attributes:
      values: float64[N, K].
      score: float64[..., K] -> float64[...].
    """

    values: np.ndarray
    score: Callable[[np.ndarray], np.ndarray]

    def figure(self, numbers: Sequence[int] | None = None) -> float:
        """Returns the figure over some sentences; over all if None."""
        chosen = self.values if numbers is None else self.values[list(numbers)]
        return float(self.score(chosen.sum(axis=0)))


def sentence_sums(
    kind: str, texts: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, SentenceSums]:
    """Computes what figures are made of.

    Args:
      kind: `error_rate` or `bleu`, as `evaluation.metrics`.
      texts: an output for each sentence.
      references: one or more for each sentence.

    Returns:
      `wer` and `per` (`metrics.error_counts`), or `bleu` and `chrf` (sacreBLEU's defaults).
    """
    if kind == "error_rate":
        return _error_rates(texts, references)
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    # Its own lower-level steps: the public ones start from text, for every sample again.
    streams = metrics.reference_streams(references)
    sums_by_name = {}
    for name, metric in (("bleu", BLEU(force=True)), ("chrf", CHRF())):
        sums = metric._extract_corpus_statistics(list(texts), streams)
        sums_by_name[name] = SentenceSums(np.asarray(sums, np.float64), _sacrebleu(metric))
    return sums_by_name


class Part(NamedTuple):
    """Some of a split's sentences."""

    name: str
    sentences: int
    figures: dict[str, float]  # by name


def split_sums(
    kind: str,
    texts: Sequence[str],
    split: EvaluationSplit,
    nll: np.ndarray,
    tokens: np.ndarray,
) -> dict[str, SentenceSums]:
    """Computes what each sentence of a split adds to its figures.

    Args:
      kind: `error_rate` or `bleu`, as `evaluation.metrics`.
      texts: an output for each example.
      split: the split.
      nll: float64[N], nats of every reference, in the order of `EvaluationSplit.pairs`.
      tokens: int64[N], those of every reference, end marks counted.

    Returns:
      The figures of `sentence_sums` and `perplexity`; with `bleu` also `ter` and `exact_match`.
    """
    references = [example.references for example in split.examples]
    examples = np.repeat(np.arange(len(references)), list(map(len, references)))
    losses = np.zeros((len(references), 2))
    np.add.at(losses, examples, np.stack([nll, tokens], axis=1))
    sums = sentence_sums(kind, texts, references)
    if kind == "bleu":
        right = [text in known for text, known in zip(texts, references, strict=True)]
        matches = np.stack([right, np.ones(len(right))], axis=1).astype(np.float64)
        sums["ter"] = SentenceSums(metrics.ter_counts(texts, references), _percent)
        sums["exact_match"] = SentenceSums(matches, _percent)
    return sums | {"perplexity": SentenceSums(losses, _perplexity)}


def link_sums(counts: Sequence[LinkCounts]) -> SentenceSums:
    """Returns what each pair adds to the alignment error rate."""
    values = [(c.found, c.sure, c.found_sure, c.found_possible) for c in counts]

    return SentenceSums(np.array(values, np.float64), _error_rate)


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
        known = scores[np.isfinite(scores)]
        low, high = np.quantile(known, [0.025, 0.975]) if known.size else (np.nan, np.nan)
        limits[name] = float(low), float(high)
    return limits


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
        for bucket in metrics.by_length(lengths, limits, values.figure):
            part = parts.setdefault(bucket.name, Part(bucket.name, bucket.sentences, {}))
            part.figures[figure] = bucket.score
    return list(parts.values())


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


def _error_rate(sums: np.ndarray) -> np.ndarray:
    chosen, sure, chosen_sure, chosen_possible = np.moveaxis(sums, -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return 100.0 * (1.0 - (chosen_sure + chosen_possible) / (chosen + sure))


def _percent(sums: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return 100.0 * sums[..., 0] / sums[..., 1]


def _perplexity(sums: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(sums[..., 0] / sums[..., 1], 700.0))


def _error_rates(
    texts: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, SentenceSums]:
    counts = [
        metrics.error_counts([text.split()], [[r.split() for r in known]])
        for text, known in zip(texts, references, strict=True)
    ]
    wrong = [(c.wrong, c.sequences) for c in counts]
    edits = [(c.edits, c.symbols) for c in counts]
    return {
        "wer": SentenceSums(np.array(wrong, np.float64), _percent),
        "per": SentenceSums(np.array(edits, np.float64), _percent),
    }


def _sacrebleu(metric: Any) -> Callable[[np.ndarray], np.ndarray]:
    def score(sums: np.ndarray) -> np.ndarray:
        rows = sums.reshape(-1, sums.shape[-1])
        scores = [metric._compute_score_from_stats([int(x) for x in row]).score for row in rows]
        return np.array(scores).reshape(sums.shape[:-1])

    return score
