"""Figures of outputs: edit distances, PER and WER, BLEU, chrF, TER; and how right alignments are.

Counts are summed over the sentences and divided once, at the end.
"""

import bisect
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

HIGHER_IS_BETTER = ("bleu", "chrf", "exact_match")


def higher_is_better(name: str) -> bool:
    """Returns whether more is better of a figure, as `bleu` or `test/bleu`."""
    return name.rsplit("/", 1)[-1] in HIGHER_IS_BETTER


def edit_distance(hypothesis: Sequence[str], reference: Sequence[str]) -> int:
    """Counts the insertions, deletions and substitutions between two sequences (Levenshtein).

    Args:
      hypothesis: symbols: phones, words, or the characters of a string.
      reference: the same kind of symbols.

    Returns:
      The least number of single edits that turn one into the other.
    """
    row = list(range(len(reference) + 1))
    for i, symbol in enumerate(hypothesis, 1):
        diagonal, row[0] = row[0], i
        for j, other in enumerate(reference, 1):
            above = row[j]
            if symbol == other:
                row[j] = diagonal
            else:
                row[j] = 1 + min(diagonal, above, row[j - 1])
            diagonal = above
    return row[-1]


@dataclasses.dataclass(frozen=True)
class ErrorCounts:
    """Edits against the closest references, summed over sequences; adding two sums them."""

    edits: int  # sum of the distances
    symbols: int  # sum of the chosen references' lengths
    wrong: int  # sequences whose distance isn't 0
    sequences: int

    def __add__(self, other: "ErrorCounts") -> "ErrorCounts":
        return ErrorCounts(
            self.edits + other.edits,
            self.symbols + other.symbols,
            self.wrong + other.wrong,
            self.sequences + other.sequences,
        )

    @property
    def per(self) -> float:
        """Symbol (phoneme) error rate in percent, at least 0, above 100 possible."""
        return _percent(self.edits, self.symbols)

    @property
    def wer(self) -> float:
        """Sequence (word) error rate in percent, 0 to 100."""
        return _percent(self.wrong, self.sequences)


def error_counts(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[Sequence[str]]]
) -> ErrorCounts:
    """Compares each sequence with the closest of its references, the shorter one on a tie.

    This is the scoring of the grapheme-to-phoneme literature on CMUdict: hypotheses are words'
    pronunciations, symbols are phones.

    Args:
      hypotheses: a sequence of symbols for each word.
      references: one or more sequences of symbols for each word.

    Returns:
      Sums over all words.

    Raises:
      ValueError: the numbers of words differ, or a word has no reference.
    """
    edits = symbols = wrong = 0
    for hypothesis, candidates in zip(hypotheses, references, strict=True):
        distance, length = min((edit_distance(hypothesis, r), len(r)) for r in candidates)
        edits += distance
        symbols += length
        wrong += distance > 0
    return ErrorCounts(edits, symbols, wrong, len(hypotheses))


class MatchCounts(NamedTuple):
    """How many outputs are right as a whole."""

    matches: int
    sentences: int

    @property
    def exact_match(self) -> float:
        """Share of exact matches in percent."""
        return _percent(self.matches, self.sentences)


def match_counts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> MatchCounts:
    """Counts the outputs that equal one of their references, character by character.

    Args:
      hypotheses: one text for each sentence.
      references: one or more texts for each sentence.

    Returns:
      Sums over all sentences.

    Raises:
      ValueError: the numbers of sentences differ.
    """
    pairs = zip(hypotheses, references, strict=True)
    return MatchCounts(sum(h in candidates for h, candidates in pairs), len(hypotheses))


def alignment_accuracy(alignments: Sequence[np.ndarray], known: Sequence[Sequence[int]]) -> float:
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
    return _percent(right, positions)


class TextScore(NamedTuple):
    """A score of a whole corpus."""

    score: float  # BLEU, chrF: 0 to 100, more is better; TER: from 0, less is better
    signature: str  # sacreBLEU's own, to be printed beside the score


def text_scores(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> dict[str, TextScore]:
    """Computes corpus BLEU, chrF and TER by sacreBLEU (Post 2018).

    Args:
      hypotheses: one text for each sentence, detokenised.
      references: one or more texts for each sentence; their number may differ.
      lowercase: whether case is ignored.
      tokenize: sacreBLEU's tokeniser for BLEU: `13a`, `intl`, `char`, `zh`, `ja-mecab`,
        `none` (for text that is tokenised).

    Returns:
      `bleu`, `bleu_lowercase` (always without case), `chrf` and `ter`.

    Raises:
      ValueError: there is no sentence, the numbers of sentences differ, or one has no reference.
    """
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    if not hypotheses or len(hypotheses) != len(references) or not all(references):
        raise ValueError("needs as many sentences as lists of references, and none of them empty")
    streams = reference_streams(references)
    metrics = {
        "bleu": BLEU(lowercase=lowercase, tokenize=tokenize, force=True),
        "bleu_lowercase": BLEU(lowercase=True, tokenize=tokenize, force=True),
        "chrf": CHRF(lowercase=lowercase),
        "ter": TER(case_sensitive=not lowercase),
    }
    scores = {}
    for name, metric in metrics.items():
        score = metric.corpus_score(list(hypotheses), streams).score
        scores[name] = TextScore(float(score), str(metric.get_signature()))
    return scores


def ter_counts(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> np.ndarray:
    """Returns what each sentence adds to TER, float64[N, 2]: edits, words of its references.

    Args:
      hypotheses: as of `text_scores`.
      references: as of `text_scores`; of several, the words are counted in their mean.
    """
    from sacrebleu.metrics.ter import TER

    # Its lower-level step: the public ones give a rate of all sentences, or start for each anew.
    counts = TER(case_sensitive=True)._extract_corpus_statistics(
        list(hypotheses), reference_streams(references)
    )
    return np.asarray(counts, np.float64).reshape(-1, 2)


def reference_streams(references: Sequence[Sequence[str]]) -> Any:
    """Returns references as sacreBLEU takes them.

    Args:
      references: one or more texts for each sentence.

    Returns:
      One list a reference's number; None where a sentence has fewer, which sacreBLEU's types deny.
    """
    most = max(len(candidates) for candidates in references)
    return [[c[k] if k < len(c) else None for c in references] for k in range(most)]


class LengthBucket(NamedTuple):
    """A figure over the sentences whose source has `low` to `high` tokens, both included."""

    low: int
    high: int | None  # None: no upper limit
    sentences: int
    score: float


def by_length(
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


def _percent(part: int, whole: int) -> float:
    return 100.0 * part / whole if whole else float("nan")
