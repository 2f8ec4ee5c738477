"""One step of many hypotheses: a model, or an ensemble of it, over those that are still searched.

A beam is a grid of K places for B sentences. The model's arrays have a row for each place that may
still change; when these have become few enough, the rows are packed, so that a hypothesis that has
ended costs nothing. A row's keys and annotations are copied when rows are packed, never in a step.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.model.attention import Memory
from bahdanau_jax.model.decoder import DecoderState
from bahdanau_jax.model.seq2seq import Seq2Seq


class Rows(NamedTuple):
    """What the model computes with: R rows, those of a sentence side by side.

    The j-th row of a sentence belongs to the j-th of its places that are open.
    """

    state: DecoderState  # float32[R, H]; with an ensemble [M, R, H]
    memory: Memory  # of each row's sentence, float32[R, S, C]; with an ensemble [M, R, S, C]
    first: Array  # each sentence's first row, int32[B]


class Stepper:
    """A model, or an ensemble of it, whose rows are hypotheses."""

    def __init__(self, model: Seq2Seq, params: dict, members: int):
        """Takes the parameters, which are stacked where `members`, M, isn't 0."""
        self._model, self._params, self._members = model, params, members

    def start(self, source: Array, places: int) -> Rows:
        """Encodes the sentences, int32[B, S]; each has K rows."""

        def of_member(params):
            bound_model = self._model.bind({"params": params})
            memory = bound_model.encode(source)
            return bound_model.initial_state(memory), memory

        state, memory = (jax.vmap(of_member) if self._members else of_member)(self._params)
        batch = source.shape[0]
        sentence = jnp.repeat(jnp.arange(batch, dtype=jnp.int32), places)
        first = jnp.arange(batch, dtype=jnp.int32) * places
        return Rows(self._take(state, sentence), self._take(memory, sentence), first)

    def step(self, rows: Rows, places: Array, previous: Array) -> tuple[Rows, Array, Array, Array]:
        """Takes a step.

        The words' scores aren't normalised here: the search subtracts log Σ exp from the few that
        it keeps, not from all V. With 320 rows of 8,000 words that saves a pass over 10 MB.

        Args:
          rows: what the step before left.
          places: the row of each place, or R where it has none, int32[K, B].
          previous: y_{i-1} of each place, int32[K, B].

        Returns:
          The rows; scores of y_i and their log Σ exp, so that log p(y_i) is the difference,
          `float32[R, V]` and `float32[R, 1]`; and α_ij, `float32[R, S]`.
        """
        count = rows.memory.mask.shape[-2]
        words = jnp.zeros(count, jnp.int32).at[places].set(previous, mode="drop")

        def of_member(params, state, memory):
            stepped: Any = self._model.apply(
                {"params": params}, state, words, memory, method="decode_step"
            )
            state, logits, alignment = stepped
            return state, logits, jax.nn.logsumexp(logits, axis=-1, keepdims=True), alignment

        if not self._members:
            state, logits, log_z, alignment = of_member(self._params, rows.state, rows.memory)
            return rows._replace(state=state), logits, log_z, alignment
        over_members = jax.vmap(of_member)
        state, logits, log_z, alignment = over_members(self._params, rows.state, rows.memory)
        total = jax.nn.logsumexp(logits - log_z, axis=0)
        members = jnp.full_like(log_z[0], jnp.log(self._members))
        return rows._replace(state=state), total, members, alignment.mean(axis=0)

    def reorder(self, rows: Rows, before: Array, parent: Array, after: Array) -> Rows:
        """Gives every place the state of its parent.

        Args:
          rows: after the step.
          before: the row of each place at the step, int32[K, B].
          parent: the place that each place continues, int32[K, B].
          after: the row of each place from now on, int32[K, B].
        """
        count = rows.memory.mask.shape[-2]
        origin = jnp.take_along_axis(before, parent, axis=0)
        source = jnp.arange(count, dtype=jnp.int32).at[after].set(origin, mode="drop")
        return rows._replace(state=self._take(rows.state, source))

    def pack(self, rows: Rows, opened: Array, count: int) -> Rows:
        """Leaves out the rows that have no place.

        Args:
          rows: of which at most `count` have a place.
          opened: places that may still change, bool[K, B].
          count: rows afterwards.
        """
        old = row_of_place(rows.first, opened, rows.memory.mask.shape[-2])
        needed = opened.sum(axis=0, dtype=jnp.int32)
        first = jnp.cumsum(needed) - needed
        new = row_of_place(first, opened, count)
        origin = jnp.zeros(count, jnp.int32).at[new].set(old, mode="drop")
        return Rows(self._take(rows.state, origin), self._take(rows.memory, origin), first)

    def _take(self, tree: Any, origin: Array) -> Any:
        """Returns some rows of every array that has rows; the step's number has none."""
        axis = int(self._members > 0)

        def of_rows(x: Array) -> Array:
            return x if x.ndim <= axis else jnp.take(x, origin, axis=axis, mode="clip")

        return jax.tree.map(of_rows, tree)


def row_of_place(first: Array, opened: Array, count: int) -> Array:
    """Returns the row of each place that is open, and `count`, which is none, of the others.

    Args:
      first: each sentence's first row, int32[B].
      opened: places that may still change, bool[K, B].
      count: R.

    Returns:
      int32[K, B].
    """
    rank = jnp.cumsum(opened, axis=0, dtype=jnp.int32) - 1
    return jnp.where(opened, first[None] + rank, count)


def of_places(rows: Array, places: Array, otherwise: float) -> Array:
    """Returns what the row of each place holds, `[K, B, ...]` from `[R, ...]`.

    Args:
      rows: `float[R, N]`.
      places: as `row_of_place` returns them, int32[K, B].
      otherwise: what a place without a row holds.
    """
    return jnp.take(rows, places, axis=0, mode="fill", fill_value=otherwise)
