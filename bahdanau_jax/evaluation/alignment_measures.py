"""What alignments are worth: how sharp, on what, how right against known positions or gold links.

An offset is the number of source positions by which weights lie beside the position that is right:
positive where they lie to the right of it. Nothing in training ties weights to a word's own
position, since its neighbours' annotations tell of it too.

Of gold links precision, recall and AER (Och and Ney 2003, "A Systematic Comparison of Various
Statistical Alignment Models", section 4); counts are summed over the pairs and divided once.
"""

import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from bahdanau_jax.data.gold_links import GoldLinks, Link

OFFSETS: tuple[int, ...] = (0, -1, 1, -2, 2, -3, 3)  # of equally good ones the first counts


@dataclasses.dataclass(frozen=True)
class LinkCounts:
    """Links found (A) beside sure (S) and possible ones (P); adding two sums them."""

    found: int = 0  # |A|
    sure: int = 0  # |S|
    found_sure: int = 0  # |A ∩ S|
    found_possible: int = 0  # |A ∩ P|

    def __add__(self, other: "LinkCounts") -> "LinkCounts":
        return LinkCounts(
            self.found + other.found,
            self.sure + other.sure,
            self.found_sure + other.found_sure,
            self.found_possible + other.found_possible,
        )

    @property
    def precision(self) -> float:
        """|A ∩ P| / |A|, in percent; nan if nothing was found."""
        return 100.0 * self.found_possible / self.found if self.found else float("nan")

    @property
    def recall(self) -> float:
        """|A ∩ S| / |S|, in percent; nan if no link is sure."""
        return 100.0 * self.found_sure / self.sure if self.sure else float("nan")

    @property
    def aer(self) -> float:
        """Alignment error rate 1 - (|A ∩ S| + |A ∩ P|) / (|A| + |S|), in percent."""
        whole = self.found + self.sure
        right = self.found_sure + self.found_possible
        return 100.0 * (1.0 - right / whole) if whole else float("nan")


def count_links(found: Iterable[Link], gold: GoldLinks) -> LinkCounts:
    """Compares the links of one pair with those that annotators gave it."""
    chosen = frozenset(found)
    right = (len(chosen & gold.sure), len(chosen & gold.possible))
    return LinkCounts(len(chosen), len(gold.sure), *right)


def links(weights: np.ndarray, threshold: float | None) -> set[Link]:
    """Returns `threshold_links`, or `argmax_links` where the threshold is None."""
    return moved_links(weights, threshold, 0)


def moved_links(weights: np.ndarray, threshold: float | None, offset: int) -> set[Link]:
    """Returns the links that remain when every one is moved back by an offset.

    Args:
      weights: as of `argmax_links`.
      threshold: as of `threshold_links`; None: as `argmax_links`.
      offset: source positions. A link of the sentence's end may so become one of its last word;
        one that is moved out of the sentence is left out.
    """
    if not weights.size:
        return set()
    if threshold is None:
        attended = np.zeros(weights.shape, bool)
        attended[np.arange(len(weights)), weights.argmax(axis=1)] = weights.max(axis=1) > 0
    else:
        attended = weights >= threshold
    words = weights.shape[1] - 1
    places = ((int(i) - offset, int(j)) for j, i in np.argwhere(attended))
    return {(i, j) for i, j in places if 0 <= i < words}


def best_offset(counts: dict[int, LinkCounts]) -> int | None:
    """Returns the offset at which the links agree best with the gold ones.

    Args:
      counts: by offset, of `OFFSETS`; of links moved back by it.

    Returns:
      That of the lowest AER; None if there is no link at all.
    """
    known = [offset for offset in OFFSETS if not math.isnan(counts[offset].aer)]
    return min(known, key=lambda offset: counts[offset].aer, default=None)


def argmax_links(weights: np.ndarray) -> set[Link]:
    """Links each target word to the source word that has most weight.

    Args:
      weights: float[T, S + 1], rows are target words, columns source words and, last, the end of
        the sentence. Of equal weights the first counts.

    Returns:
      At most T links: a word that attends to the end most, or to nothing, has none.
    """
    return moved_links(weights, None, 0)


def threshold_links(weights: np.ndarray, threshold: float) -> set[Link]:
    """Links each target word to every source word that has at least `threshold` of its weight.

    Args:
      weights: as of `argmax_links`.
      threshold: above 0, at most 1.
    """
    return moved_links(weights, threshold, 0)


def diagonal_links(source: int, target: int) -> set[Link]:
    """Links each target word to the source word at the same share of the sentence.

    Args:
      source: number of source words.
      target: number of target words.

    Returns:
      The links of the straight line through the middles of the words; none if a side is empty.
    """
    return set(zip(_diagonal(source, target), range(target), strict=True)) if source else set()


def _diagonal(source: int, target: int) -> list[int]:
    """Returns the source position at the same share of the sentence as each target position."""
    return [(2 * j + 1) * source // (2 * target) for j in range(target)]


def accuracy(alignments: Sequence[np.ndarray], known: Sequence[Sequence[int]]) -> float:
    """Compares the most attended source positions with the right ones.

    Args:
      alignments: float[T, S] for each output: row i is about output token i. Rows behind those
        that are known, as the end mark's, don't count.
      known: for each output the right source position of each of its tokens, from 0. A token
        without a row, where an output is too short, counts as wrong.

    Returns:
      The share of known positions that receive their row's largest weight, in percent; nan if
      there is none.

    Raises:
      ValueError: the numbers of outputs differ.
    """
    right = positions = 0
    for weights, sources in zip(alignments, known, strict=True):
        rows = weights[: len(sources)]
        positions += len(sources)
        if rows.size:
            right += int((rows.argmax(axis=1) == np.asarray(sources[: len(rows)])).sum())
    return 100.0 * right / positions if positions else float("nan")


def diagnostics(
    alignments: Sequence[np.ndarray], known: Sequence[Sequence[int]] | None = None
) -> dict[str, float]:
    """Computes figures over the alignments of outputs.

    Args:
      alignments: float[T, S] of each sentence, rows are decoding steps; the last column is the end
        mark of the source, the others its tokens. Rows without any weight don't count.
      known: as of `accuracy`; None: nothing is known, and positions on the diagonal are taken for
        the right ones.

    Returns:
      `entropy`, -Σ_j α_ij log α_ij in nats, and `end_weight`, the weight on the source's end mark
      in percent, both means over all steps; `unattended`, the share in percent of source tokens
      that no step gives its largest weight; `offset`, of `OFFSETS` the one by which most steps'
      largest weights lie beside the right positions, those on the end mark not counted. nan where
      there is nothing to count.
    """
    entropy = end_weight = 0.0
    steps = tokens = attended = 0
    beside: Counter[int] = Counter()
    for number, alignment in enumerate(alignments):
        right = _diagonal(*alignment.shape[::-1]) if known is None else known[number]
        for weights, position in zip(alignment, right, strict=False):  # a row for the end mark
            heaviest = int(weights.argmax())
            if weights[heaviest] > 0 and heaviest < len(weights) - 1:
                beside[heaviest - position] += 1
        rows = alignment[alignment.sum(axis=1) > 0].astype(np.float64)
        logs = np.log(rows, where=rows > 0, out=np.zeros_like(rows))
        entropy -= (rows * logs).sum()
        end_weight += rows[:, -1].sum()
        steps += len(rows)
        end = alignment.shape[1] - 1
        tokens += end
        attended += len(set(rows.argmax(axis=1).tolist()) - {end})
    return {
        "entropy": entropy / steps if steps else float("nan"),
        "end_weight": 100.0 * end_weight / steps if steps else float("nan"),
        "unattended": 100.0 * (tokens - attended) / tokens if tokens else float("nan"),
        "offset": float(max(OFFSETS, key=lambda k: beside[k])) if beside else float("nan"),
    }
