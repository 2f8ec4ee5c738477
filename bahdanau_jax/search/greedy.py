"""Greedy search: beam search with one hypothesis, for those who want nothing else."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import DecodeConfig
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.search import beam


class Hypotheses(NamedTuple):
    """One output a sentence."""

    tokens: Array  # int32[B, L]; ends with EOS unless the limit came first, then PAD
    log_probability: Array  # Σ_i log p(y_i), nats, float32[B]
    alignments: Array  # float32[B, L, S]; zero behind the end


def greedy(model: Seq2Seq, params: dict, source: Array, limits: Array, longest: int) -> Hypotheses:
    """Takes the likeliest word at every step, until every sentence has ended.

    Args:
      model: the model.
      params: its parameters.
      source: ids, `int32[B, S]`, ending in EOS and then PAD; a row of PAD yields nothing.
      limits: most tokens of each output, EOS counted, `int32[B]`, at most `longest`.
      longest: L, static.

    Returns:
      The hypotheses, as those of `beam.search` with a beam of one.
    """
    batch = source.shape[0]
    none = jnp.zeros((batch,), jnp.int32)
    prefix = jnp.zeros((batch, 0), jnp.int32)
    sentences = beam.Sentences(source, limits, none, prefix, none)
    found = beam.search(model, params, sentences, DecodeConfig(beam_size=1), longest=longest)
    return Hypotheses(found.tokens[:, 0], found.log_probability[:, 0], found.alignments[:, 0])
