"""Recurrent cells: parameters and one step of a GRU (both forms) or an LSTM.

Bahdanau et al. 2014, appendix A.1.1; the equations themselves are in `equations.py`. What doesn't
depend on the recurrence is computed by `project` for all steps at once, outside the loop;
`__call__` is what remains inside it. A cell's state is a tuple whose first member is the hidden
state `float32[B, H]`; the LSTM's second is its memory.
"""

import functools
from typing import TypeAlias

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import equations
from bahdanau_jax.model.initialization import Initialization, initialization, per_gate

CellState: TypeAlias = tuple[Array, ...]


class RecurrentCell(nn.Module):
    """What the three cells share: parameters, the input projection, layer normalisation.

    Attributes:
      units: H.
      inputs: size of the input x.
      context: size of a second input that is known only inside the loop; 0 for none.
      layer_norm: normalise the input's, the state's and the context's terms, each for itself (Ba,
        Kiros and Hinton 2016, supplement). The gates of `TOGETHER` share their statistics, and a
        GRU's proposal has its own.
      initialize: the distributions of the parameters.
    """

    units: int
    inputs: int
    context: int
    layer_norm: bool
    initialize: Initialization

    GATES = 0
    TOGETHER = 0  # the first of them, normalised as one vector

    def setup(self):
        """Declares W (input), U (recurrence), C (context), b, and the gains of the norms."""
        wide = self.GATES * self.units
        kernel = per_gate(self.initialize.kernel, self.GATES)
        self.W = self.param("W", kernel, (self.inputs, wide))
        recurrent = per_gate(self.initialize.recurrent, self.GATES)
        self.U = self.param("U", recurrent, (self.units, wide))
        self.b = self.param("b", self.initialize.bias, (wide,))
        if self.context:
            self.C = self.param("C", kernel, (self.context, wide))
        if self.layer_norm:
            self.gain_W = self.param("gain_W", nn.initializers.ones, (wide,))
            self.gain_U = self.param("gain_U", nn.initializers.ones, (wide,))
            if self.context:
                self.gain_C = self.param("gain_C", nn.initializers.ones, (wide,))

    def project(self, x: Array) -> Array:
        """Returns the input's part of every gate, for all steps at once.

        Args:
          x: `float32[..., inputs]`.

        Returns:
          `float32[..., gates * H]`: x W + b.
        """
        projected = x @ self.W
        if self.layer_norm:
            projected = self._normalised(projected, self.gain_W)
        return projected + jnp.broadcast_to(self.bias(), projected.shape)

    def bias(self) -> Array:
        """Returns what is added to every gate whatever the inputs are: b, `float32[gates * H]`."""
        return self.b

    def initial_state(self, hidden: Array) -> CellState:
        """Returns the state that starts from `hidden`, `float32[B, H]`."""
        return (hidden,)

    def _inputs(self, projected: Array, context: Array | None) -> Array:
        """Adds the context's part to the input's: `float32[B, gates * H]`."""
        if context is None:
            return projected
        added = context @ self.C
        return projected + (self._normalised(added, self.gain_C) if self.layer_norm else added)

    def _read(self, hidden: Array, kept: Array | None) -> Array:
        """Returns the state as the recurrence reads it: under dropout, times `kept`."""
        return hidden if kept is None else hidden * kept

    def _recurrent(self, state: Array, first: int, last: int) -> Array:
        """Returns the state's part of gates `first` to `last`: `float32[B, (last - first) * H]`."""
        columns = slice(first * self.units, last * self.units)
        product = state @ self.U[:, columns]
        return self._normalised(product, self.gain_U[columns]) if self.layer_norm else product

    def _normalised(self, terms: Array, gain: Array) -> Array:
        """Normalises what one input adds to gates, to the proposal, or to both side by side."""
        width = self.TOGETHER * self.units
        if terms.shape[-1] <= width:
            return equations.layer_norm(terms, gain)
        parts = jnp.split(terms, [width], axis=-1), jnp.split(gain, [width])
        normalised = [equations.layer_norm(*part) for part in zip(*parts, strict=True)]
        return jnp.concatenate(normalised, axis=-1)


class GRUBefore(RecurrentCell):
    """The paper's GRU: the reset gate acts before the recurrent product (Cho et al. 2014).

    Bahdanau et al. 2014, appendix A.1.1 and A.2.2.
    """

    GATES, TOGETHER = 3, 2

    def __call__(
        self,
        state: CellState,
        projected: Array,
        context: Array | None = None,
        kept: Array | None = None,
    ) -> CellState:
        """Takes one step.

        Args:
          state: (s_{i-1},), `float32[B, H]`.
          projected: what `project` returned for this step, `float32[B, 3H]`.
          context: c_i, `float32[B, context]`, or None.
          kept: what s_{i-1} is multiplied by where U reads it, `float32[B, H]`, or None. What the
            step carries over of s_{i-1} stays as it is (Gal and Ghahramani 2016, section 4.1).

        Returns:
          (s_i,), `float32[B, H]`.
        """
        (s,) = state
        inputs = self._inputs(projected, context)
        read = self._read(s, kept)
        gates = equations.gru_gates(inputs[:, : 2 * self.units], self._recurrent(read, 0, 2))
        reset, update = jnp.split(gates, 2, axis=-1)
        recurrent = self._recurrent(reset * read, 2, 3)
        proposal = equations.gru_proposal(inputs[:, 2 * self.units :], recurrent)
        return (equations.gru_before(s, update, proposal),)


class GRUAfter(RecurrentCell):
    """The GRU of cuDNN, PyTorch and Flax: the reset gate acts after the recurrent product."""

    GATES, TOGETHER = 3, 2

    def setup(self):
        """Declares a bias inside the reset gate's product beside the shared parameters."""
        super().setup()
        self.b_u = self.param("b_u", self.initialize.bias, (self.units,))

    def __call__(
        self,
        state: CellState,
        projected: Array,
        context: Array | None = None,
        kept: Array | None = None,
    ) -> CellState:
        """Takes one step; arguments and result as for `GRUBefore`."""
        (s,) = state
        inputs = self._inputs(projected, context)
        recurrent = self._recurrent(self._read(s, kept), 0, 3)
        wide = 2 * self.units
        gates = equations.gru_gates(inputs[:, :wide], recurrent[:, :wide])
        reset, update = jnp.split(gates, 2, axis=-1)
        remembered = recurrent[:, wide:] + self.b_u[None, :]
        proposal = equations.gru_proposal(inputs[:, wide:], reset * remembered)
        return (equations.gru_after(s, update, proposal),)


class LSTM(RecurrentCell):
    """The LSTM without peepholes; gates in the order input, forget, proposal, output.

    Attributes:
      forget_bias: a constant in the forget gate, as in TensorFlow's cells, so that b starts as it
        does in the other gates and yet the memory is kept from the start (Jozefowicz et al. 2015,
        section 2.2).
    """

    forget_bias: int = 0

    GATES = TOGETHER = 4

    def setup(self):
        """Declares the gain and the bias of the memory's norm beside the shared parameters."""
        super().setup()
        self.gain_m = self.b_m = None
        if self.layer_norm:
            self.gain_m = self.param("gain_m", nn.initializers.ones, (self.units,))
            self.b_m = self.param("b_m", self.initialize.bias, (self.units,))

    def bias(self) -> Array:
        """Returns b, and in the forget gate b + `forget_bias`, `float32[4H]`."""
        if self.forget_bias == 0:
            return self.b
        in_forget_gate = jnp.arange(4 * self.units) // self.units == 1
        return self.b + jnp.where(in_forget_gate, self.forget_bias, 0).astype(self.b.dtype)

    def initial_state(self, hidden: Array) -> CellState:
        """Returns (hidden, memory of zeros), each `float32[B, H]`."""
        return (hidden, jnp.zeros_like(hidden))

    def __call__(
        self,
        state: CellState,
        projected: Array,
        context: Array | None = None,
        kept: Array | None = None,
    ) -> CellState:
        """Takes one step; `state` is (hidden, memory), `projected` is `float32[B, 4H]`."""
        hidden, memory = state
        recurrent = self._recurrent(self._read(hidden, kept), 0, 4)
        gates = self._inputs(projected, context) + recurrent
        return equations.lstm(memory, gates, self.gain_m, self.b_m)


def make_cell(
    config: ModelConfig, side: str, units: int, inputs: int, *, context: int = 0
) -> RecurrentCell:
    """Returns the cell that `config` names.

    Args:
      config: `cell`, `gru_reset`, `forget_bias`, `layer_norm` and `initialization` are read.
      side: encoder | decoder.
      units: H.
      inputs: size of the input.
      context: size of the second input, inside the loop; 0 for none.
    """
    if config.cell == "lstm":
        kind = functools.partial(LSTM, forget_bias=config.forget_bias)
    else:
        kind = GRUBefore if config.gru_reset == "before" else GRUAfter
    return kind(
        units=units,
        inputs=inputs,
        context=context,
        layer_norm=config.normalises(side),
        initialize=initialization(config.initialization),
    )
