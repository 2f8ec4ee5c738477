"""Greedy search: a beam of one, with the axis of the hypotheses left out."""

import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import DecodeConfig
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.search.beam import Hypotheses, Sentences, search


def greedy(model: Seq2Seq, params: dict, source: Array, limits: Array, longest: int) -> Hypotheses:
    """Returns one output a sentence; a sentence's limit counts its end mark."""
    none = jnp.zeros((source.shape[0],), jnp.int32)
    sentences = Sentences(source, limits, none, none[:, None][:, :0], none)
    outputs = search(model, params, sentences, DecodeConfig(beam_size=1), longest=longest)
    return Hypotheses(*(field[:, 0] for field in outputs))
