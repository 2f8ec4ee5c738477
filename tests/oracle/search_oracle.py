"""Beam search, exhaustive search and penalties in plain Python, over a table of probabilities."""

import itertools
import math
from typing import NamedTuple

import numpy as np

from bahdanau_jax.config import DecodeConfig
from bahdanau_jax.special_ids import BOS, EOS, PAD, UNK

Words = tuple[int, ...]


class Table(NamedTuple):
    """What a model says after every beginning of one sentence's output."""

    log_p: dict[Words, np.ndarray]  # float64[V]
    alignment: dict[Words, np.ndarray]  # float64[S]
    words: np.ndarray  # where the source has words, bool[S]


class Asked(NamedTuple):
    """What one sentence asks of its output."""

    limit: int
    minimum: int = 0
    prefix: Words = ()


class Hypothesis(NamedTuple):
    tokens: Words
    log_p: float
    score: float


def candidates(table: Table, asked: Asked, config: DecodeConfig, tokens: Words) -> list[int]:
    """Returns the words that may follow."""
    step = len(tokens)
    if step < len(asked.prefix):
        return [asked.prefix[step]]
    forbidden = {PAD, BOS}
    if config.suppress_unk:
        forbidden.add(UNK)
    if step < asked.minimum:
        forbidden.add(EOS)
    return [word for word in range(len(table.log_p[()])) if word not in forbidden]


def judged(table: Table, config: DecodeConfig, tokens: Words, log_p: float) -> Hypothesis:
    """Returns a complete hypothesis with its score."""
    n = len(tokens)
    if config.length_penalty == "average":
        score = log_p / n
    elif config.length_penalty == "gnmt":
        score = log_p / ((5 + n) ** config.length_penalty_alpha / 6**config.length_penalty_alpha)
    else:
        score = log_p
    if config.coverage_penalty:
        for j in np.flatnonzero(table.words):
            attended = sum(table.alignment[tokens[:i]][j] for i in range(n))
            score += config.coverage_penalty * math.log(min(max(attended, 1e-6), 1.0))
    return Hypothesis(tokens, log_p, score)


def ranked(found: list[Hypothesis]) -> list[Hypothesis]:
    """Returns the hypotheses, those that ended first, then by score."""
    return sorted(found, key=lambda h: (h.tokens[-1] != EOS, -h.score))


def exhaustive(table: Table, asked: Asked, config: DecodeConfig) -> list[Hypothesis]:
    """Returns every hypothesis there is, the best first."""
    found: list[tuple[Words, float]] = []
    live: list[tuple[Words, float]] = [((), 0.0)]
    for _ in range(asked.limit):
        longer = []
        for tokens, log_p in live:
            for word in candidates(table, asked, config, tokens):
                reached = (*tokens, word), log_p + table.log_p[tokens][word]
                (found if word == EOS else longer).append(reached)
        live = longer
    return ranked([judged(table, config, *each) for each in found + live])


def beam_search(table: Table, asked: Asked, config: DecodeConfig) -> list[Hypothesis]:
    """Searches until every hypothesis has ended: no early stop. The best first."""
    found: list[tuple[Words, float]] = []
    live: list[tuple[Words, float]] = [((), 0.0)]
    for _ in range(asked.limit):
        reached = [
            ((*tokens, word), log_p + table.log_p[tokens][word])
            for tokens, log_p in live
            for word in candidates(table, asked, config, tokens)
        ]
        kept = sorted(reached, key=lambda each: -each[1])[: config.beam_size - len(found)]
        found += [each for each in kept if each[0][-1] == EOS]
        live = [each for each in kept if each[0][-1] != EOS]
    return ranked([judged(table, config, *each) for each in found + live])


def tables(predict, source: np.ndarray, size: int, longest: int) -> list[Table]:
    """Asks a model for all there is to know.

    Args:
      predict: from sources `int32[B, S]` and targets `int32[B, T]` to log-probabilities
        `[B, T, V]` and alignments `[B, T, S]`, teacher forced.
      source: `int32[N, S]`.
      size: V.
      longest: most tokens of an output.

    Returns:
      A table for each sentence.
    """
    inner = [word for word in range(size) if word not in (PAD, BOS, EOS)]
    targets = np.array(list(itertools.product(inner, repeat=longest)))
    made = []
    for row in source:
        log_p, alignment = predict(np.tile(row, (len(targets), 1)), targets)
        table = Table({}, {}, (row != PAD) & (row != EOS))
        for target, p, a in zip(targets.tolist(), log_p, alignment, strict=True):
            for step in range(longest):
                table.log_p[tuple(target[:step])] = np.asarray(p[step], np.float64)
                table.alignment[tuple(target[:step])] = np.asarray(a[step], np.float64)
        made.append(table)
    return made
