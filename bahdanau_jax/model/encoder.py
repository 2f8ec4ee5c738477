"""The bidirectional encoder: from source embeddings to annotations h_j = [→h_j ; ←h_j].

Bahdanau et al. 2014, section 3.2 and appendix A.2.1. Recurrences run over time-major arrays, so
that each step reads and writes one contiguous slice.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import kernels
from bahdanau_jax.model.cells import CellState, GRUAfter, RecurrentCell, make_cell
from bahdanau_jax.model.dropout import Noise, Place, dropout, state_factors
from bahdanau_jax.model.kernels import gru


class Encoder(nn.Module):
    """A stack of recurrences over the real tokens; each layer reads the one below.

    Attributes:
      config: the model's configuration.
    """

    config: ModelConfig

    def setup(self):
        """Declares one cell a layer and direction: `forward_0`, `backward_0` and so on."""
        encoder = self.config.encoder
        widths = [self.config.embedding] + [self.config.annotation_units] * (encoder.layers - 1)
        make = functools.partial(make_cell, self.config, "encoder", encoder.units)
        self.forward = [make(width) for width in widths]
        if encoder.bidirectional:
            self.backward = [make(width) for width in widths]

    def __call__(
        self, embedded: Array, mask: Array, noise: Noise | None = None
    ) -> tuple[Array, Array, tuple[CellState, ...]]:
        """Encodes a batch.

        Args:
          embedded: source embeddings, time-major, `float32[S, B, E]`.
          mask: `bool[S, B]`, True at real tokens.
          noise: the randomness of dropout between layers and of states; None for none.

        Returns:
          The annotations, `float32[S, B, C]`, zero at padding, in the order of `embedded` whatever
          the order of reading; the last states [→h at the last token that is read ; ←h at the
          first], `float32[B, C]`; and, where `initial_state` is `layers`, the forward direction's
          last state of each layer, the lowest first, before a residual is added. Both directions
          would be twice as wide as the layer that starts from them: shtoshni/g2p takes the forward
          one; nmt.hybrid has no other.
        """
        real = mask[:, :, None]
        layers: tuple[CellState, ...] = ()
        order = reading_order(mask) if self.config.reverse_source else None
        layer_input = annotations = embedded if order is None else permuted(embedded, order)
        for layer, cell in enumerate(self.forward):
            read = layer_input
            if layer > 0 and noise is not None:
                place = Place.ENCODER_LAYERS.of_layer(layer)
                read = dropout(read, noise.rates.layers, noise, place)
            forward, last = self._run(cell, read, mask, False, noise, layer)
            states, layers = [forward], (*layers, last)
            if self.config.encoder.bidirectional:
                states.append(self._run(self.backward[layer], read, mask, True, noise, layer)[0])
            annotations = jnp.concatenate(states, axis=-1)
            if self.config.residual and layer > 0:
                annotations = annotations + layer_input
            annotations = jnp.where(real, annotations, 0.0)
            layer_input = annotations
        if self.config.initial_state != "layers":
            layers = ()
        final = self._last_states(annotations, mask)
        # The order is its own inverse.
        return annotations if order is None else permuted(annotations, order), final, layers

    def _run(
        self,
        cell: RecurrentCell,
        inputs: Array,
        mask: Array,
        reverse: bool,
        noise: Noise | None,
        layer: int,
    ) -> tuple[Array, CellState]:
        """Runs one direction of a layer: hidden states `float32[S, B, H]`, and the last state."""
        place = (Place.BACKWARD_STATES if reverse else Place.FORWARD_STATES).of_layer(layer)
        rate = 0.0 if noise is None else noise.rates.states
        kept = state_factors(cell.units, rate, noise, place, inputs.dtype)
        if kept is None and covers(self.config) and kernels.may_run("gru", self.config.kernels):
            return recur_by_kernel(cell, inputs, mask, reverse=reverse)
        return recur(cell, inputs, mask, reverse=reverse, kept=kept)

    def _last_states(self, annotations: Array, mask: Array) -> Array:
        units = self.config.encoder.units
        last = jnp.maximum(mask.sum(0) - 1, 0)
        forward = annotations[last, jnp.arange(mask.shape[1]), :units]
        return jnp.concatenate([forward, annotations[0, :, units:]], axis=-1)


def reading_order(mask: Array) -> Array:
    """Returns where each word is read from: the last word first, and the end mark last.

    Sutskever, Vinyals and Le 2014, section 3.3.

    Args:
      mask: `bool[S, B]`, True at real tokens, of which the last is the end mark.

    Returns:
      Positions, `int32[S, B]`; padding stays where it is.
    """
    position = jnp.arange(len(mask))[:, None]
    words = mask.sum(0)[None, :] - 1
    return jnp.where(position < words, words - 1 - position, position)


def permuted(inputs: Array, order: Array) -> Array:
    """Returns `float32[S, B, I]` whose row j is row `order[j]`, `int32[S, B]`, of the inputs."""
    return jnp.take_along_axis(inputs, order[:, :, None], axis=0)


def recur(
    cell: RecurrentCell, inputs: Array, mask: Array, *, reverse: bool, kept: Array | None = None
) -> tuple[Array, CellState]:
    """Runs a cell over the real tokens, from the first or from the last.

    A padded step hands its state on unchanged. The state starts at zero, so the backward direction
    effectively starts at the last real token, however much padding follows.

    Args:
      cell: the recurrence.
      inputs: `float32[S, B, I]`.
      mask: `bool[S, B]`.
      reverse: from the last token to the first.
      kept: what the state is multiplied by where the cell reads it, `float32[B, H]`, or None.

    Returns:
      The hidden states, `float32[S, B, H]`; at padding they repeat a neighbour's. And the state
      after the last token that was read, zero where there is none.
    """

    def step(cell, state, inputs, kept):
        projected, real = inputs
        new = cell(state, projected, None, kept)
        state = jax.tree.map(lambda n, s: jnp.where(real[:, None], n, s), new, state)
        return state, state[0]

    start = cell.initial_state(jnp.zeros((inputs.shape[1], cell.units), inputs.dtype))
    scan = nn.scan(
        # Only the products are kept for the backward pass; the gates are recomputed from them.
        nn.remat(step, policy=jax.checkpoint_policies.dots_saveable, prevent_cse=False),
        variable_broadcast="params",
        split_rngs={"params": False},
        reverse=reverse,
        in_axes=(0, nn.broadcast),  # pyright: ignore[reportArgumentType]
    )
    last, hidden = scan(cell, start, (cell.project(inputs), mask), kept)
    return hidden, last


def covers(config: ModelConfig) -> bool:
    """Returns whether `recur_by_kernel` computes what `recur` does with the model's cells."""
    return config.cell == "gru" and not config.normalises("encoder")


def recur_by_kernel(
    cell: RecurrentCell, inputs: Array, mask: Array, *, reverse: bool
) -> tuple[Array, CellState]:
    """Runs a GRU as `recur` does, by `kernels.gru`."""
    b_u = cell.b_u if isinstance(cell, GRUAfter) else None
    hidden = gru.recur(cell.U, b_u, cell.project(inputs), mask, reverse=reverse)
    return hidden, (hidden[0 if reverse else -1],)
