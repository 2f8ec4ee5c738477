"""One step of many hypotheses: a model, or an ensemble of it, over rows `[K, B]`.

The K hypotheses of a sentence read the same memory: `vmap` over K leaves it as it is, so that no
copy of keys or annotations is made for them.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.attention import Memory
from bahdanau_jax.decoder import DecoderState
from bahdanau_jax.model import Seq2Seq


class Stepper:
    """A model, or an ensemble of it, whose rows are places: `[K, B]` in place of `[B]`."""

    def __init__(self, model: Seq2Seq, params: dict, members: int):
        self._model, self._params, self._members = model, params, members

    def start(self, source: Array, places: int) -> tuple[Memory, DecoderState]:
        """Encodes, and returns the first state of every place."""

        def of_member(params):
            bound_model = self._model.bind({"params": params})
            memory = bound_model.encode(source)
            state = bound_model.initial_state(memory)
            spread = jax.tree.map(lambda x: jnp.broadcast_to(x, (places, *x.shape)), state)
            return memory, spread._replace(step=state.step)

        return (jax.vmap(of_member) if self._members else of_member)(self._params)

    def step(self, state: DecoderState, previous: Array, memory: Memory):
        """Returns the next state, log p(y_i) as `float[K, B, V]`, and α_ij, `float[K, B, S]`."""
        rows = DecoderState(0, None, 0, 0)  # pyright: ignore[reportArgumentType]

        def of_member(params, state, memory):
            def of_place(state, previous):
                stepped: Any = self._model.apply(
                    {"params": params}, state, previous, memory, method="decode_step"
                )
                return stepped

            mapped = jax.vmap(of_place, in_axes=(rows, 0), out_axes=(rows, 0, 0))
            state, logits, alignment = mapped(state, previous)
            return state, jax.nn.log_softmax(logits), alignment

        if not self._members:
            return of_member(self._params, state, memory)
        state, log_q, alignment = jax.vmap(of_member)(self._params, state, memory)
        mean = jax.nn.logsumexp(log_q, axis=0) - jnp.log(self._members)
        return state, mean, alignment.mean(axis=0)

    def reorder(self, state: DecoderState, parent: Array) -> DecoderState:
        """Gives every place the state of its parent, int32[K, B]."""
        take = jax.vmap(take_places, in_axes=(0, None)) if self._members else take_places
        moved = jax.tree.map(lambda x: take(x, parent), state._replace(step=None))
        return moved._replace(step=state.step)

    def keep(self, tree: Any, rows: Array, axis: int) -> Any:
        """Returns some sentences of a memory (axis 0) or of a state (axis 1), int32[b]."""
        axis += self._members > 0
        return jax.tree.map(lambda x: jnp.take(x, rows, axis=axis, mode="clip"), tree)


def take_places(rows: Array, parent: Array) -> Array:
    """Returns rows[parent[k, b], b] for all k and b: `[K, B, ...]` from `[K, B, ...]`."""
    places, batch = parent.shape
    flat = rows.reshape(places * batch, *rows.shape[2:])
    return flat[parent * batch + jnp.arange(batch, dtype=jnp.int32)[None]]
