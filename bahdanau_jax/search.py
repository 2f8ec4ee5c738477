"""Search for a translation with a trained model."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from bahdanau_jax.decoder import DecoderState
from bahdanau_jax.model import BOS, PAD, Seq2Seq

EOS = 2  # as in vocabulary.py, which the science doesn't import


class Hypotheses(NamedTuple):
    """One output a sentence."""

    tokens: Array  # int32[B, L]; ends with EOS unless the limit came first, then PAD
    log_probability: Array  # Σ_i log p(y_i), nats, float32[B]
    alignments: Array  # float32[B, L, S]; zero behind the end


class _Progress(NamedTuple):
    step: Array  # int32[]
    state: DecoderState
    previous: Array  # int32[B]
    alive: Array  # bool[B]
    found: Hypotheses


def greedy(model: Seq2Seq, params: dict, source: Array, limits: Array, longest: int) -> Hypotheses:
    """Takes the likeliest word at every step, until every sentence has ended.

    Args:
      model: the model.
      params: its parameters.
      source: ids, `int32[B, S]`, ending in EOS and then PAD; a row of PAD yields nothing.
      limits: most tokens of each output, EOS counted, `int32[B]`, at most `longest`.
      longest: L, static.

    Returns:
      The hypotheses. PAD and BOS are never chosen; probabilities are over all V words, so that a
      hypothesis's score is that of the same target under teacher forcing.
    """
    variables = {"params": params}
    memory = model.bind(variables).encode(source)
    (batch, source_length), dtype = source.shape, memory.annotations.dtype
    start = _Progress(
        step=jnp.zeros((), jnp.int32),
        state=model.bind(variables).initial_state(memory),
        previous=jnp.full((batch,), BOS, jnp.int32),
        alive=memory.mask.any(axis=1) & (limits > 0),
        found=Hypotheses(
            tokens=jnp.full((batch, longest), PAD, jnp.int32),
            log_probability=jnp.zeros((batch,), dtype),
            alignments=jnp.zeros((batch, longest, source_length), dtype),
        ),
    )

    def take_step(now: _Progress) -> _Progress:
        state, logits, alignment = model.bind(variables).decode_step(
            now.state, now.previous, memory
        )
        log_p = jax.nn.log_softmax(logits)
        token = jnp.argmax(log_p.at[:, jnp.array([PAD, BOS])].set(-jnp.inf), axis=-1)
        chosen = jnp.take_along_axis(log_p, token[:, None], axis=-1)[:, 0]
        token = jnp.where(now.alive, token, PAD).astype(jnp.int32)
        found = Hypotheses(
            now.found.tokens.at[:, now.step].set(token),
            now.found.log_probability + jnp.where(now.alive, chosen, 0.0),
            now.found.alignments.at[:, now.step].set(jnp.where(now.alive[:, None], alignment, 0.0)),
        )
        alive = now.alive & (token != EOS) & (now.step + 1 < limits)
        return _Progress(now.step + 1, state, token, alive, found)

    return lax.while_loop(lambda now: now.alive.any(), take_step, start).found
