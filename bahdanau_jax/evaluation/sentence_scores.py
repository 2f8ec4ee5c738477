"""Figures of a test set as sums over its sentences, so that samples of them can be scored."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from bahdanau_jax.evaluation import metrics


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
    found = {}
    for name, metric in (("bleu", BLEU(force=True)), ("chrf", CHRF())):
        sums = metric._extract_corpus_statistics(list(texts), streams)
        found[name] = SentenceSums(np.asarray(sums, np.float64), _sacrebleu(metric))
    return found


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


def _percent(sums: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return 100.0 * sums[..., 0] / sums[..., 1]


def _sacrebleu(metric: Any) -> Callable[[np.ndarray], np.ndarray]:
    def score(sums: np.ndarray) -> np.ndarray:
        rows = sums.reshape(-1, sums.shape[-1])
        scores = [metric._compute_score_from_stats([int(x) for x in row]).score for row in rows]
        return np.array(scores).reshape(sums.shape[:-1])

    return score
