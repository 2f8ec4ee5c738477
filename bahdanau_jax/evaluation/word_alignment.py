"""From a matrix over tokens to one over words: pieces are merged.

Weights are added over the pieces of a source word and averaged over those of a target word, so
that each row still sums to one.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bahdanau_jax.data.vocabularies import Vocabularies, Vocabulary


class WordAlignment(NamedTuple):
    """A sentence pair and how each of its target words attended to the source."""

    source: list[str]  # S words
    target: list[str]  # T words
    weights: np.ndarray  # float32[T, S + 1]; the last column is the end of the source sentence
    source_lengths: list[int]  # tokens of each source word

    @property
    def uniform(self) -> np.ndarray:
        """The weights, float64[T, S + 1], of a decoder that attends to all tokens alike."""
        row = np.array([*self.source_lengths, 1], np.float64)
        return np.tile(row / row.sum(), (len(self.target), 1))


def merge(
    weights: np.ndarray, source_lengths: Sequence[int], target_lengths: Sequence[int]
) -> np.ndarray:
    """Merges pieces to words.

    Args:
      weights: float[T, S], rows are target tokens.
      source_lengths: tokens of each source word, at least one each, S together.
      target_lengths: tokens of each target word, at least one each, T together.

    Returns:
      float[target words, source words].

    Raises:
      ValueError: the tokens of the words aren't those of the matrix.
    """
    if weights.shape != (sum(target_lengths), sum(source_lengths)):
        raise ValueError(f"weights {weights.shape} for {source_lengths} and {target_lengths}")
    if not weights.size:
        return np.zeros((len(target_lengths), len(source_lengths)), weights.dtype)
    starts = [np.cumsum([0, *lengths[:-1]]) for lengths in (source_lengths, target_lengths)]
    added = np.add.reduceat(weights, starts[0], axis=1)
    summed = np.add.reduceat(added, starts[1], axis=0)
    return summed / np.asarray(target_lengths, weights.dtype)[:, None]


def word_alignment(
    vocabularies: Vocabularies,
    texts: tuple[str, str],
    ids: tuple[Sequence[int], Sequence[int]],
    weights: np.ndarray,
) -> WordAlignment:
    """Names the words of a pair and merges their pieces.

    Args:
      vocabularies: of both sides.
      texts: source and target, from which the words are taken.
      ids: their tokens, without end marks.
      weights: float[T, S + 1], one column a source token and its end. Row i is the step that
        predicts target token i, whatever the moment of the query.

    Returns:
      The pair in words.
    """
    sides = (vocabularies.source, vocabularies.target)
    lengths = [vocabulary.word_lengths(i) for vocabulary, i in zip(sides, ids, strict=True)]
    words = [_words(*side) for side in zip(sides, texts, ids, lengths, strict=True)]
    merged = merge(weights, [*lengths[0], 1], lengths[1])
    return WordAlignment(words[0], words[1], merged, lengths[0])


def _words(
    vocabulary: Vocabulary, text: str, ids: Sequence[int], lengths: Sequence[int]
) -> list[str]:
    """Returns the text's words if its tokens make up as many, and else what the tokens say."""
    words = vocabulary.words(text)
    if len(words) == len(lengths):
        return words
    tokens, ends = vocabulary.tokens(ids), np.cumsum(lengths).tolist()
    spans = zip([0, *ends[:-1]], ends, strict=True) if ends else ()
    return ["".join(tokens[begin:end]).lstrip("▁") for begin, end in spans]
