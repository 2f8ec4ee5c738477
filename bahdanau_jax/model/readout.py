"""The readout: what of state, context and previous word becomes the vector before the softmax."""

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.initialization import initialization


class Readout(nn.Module):
    """maxout: Bahdanau et al. 2014, appendix A.2.2; linear hands the state on as it is.

    Luong's attentional vector is computed by the decoder's cell, which may feed it to the next
    step; here it is handed on.

    Attributes:
      config: the model's configuration.
    """

    config: ModelConfig

    def setup(self):
        """Declares U_o (state), V_o (word), C_o (context) and b_o for maxout."""
        config = self.config
        if config.readout != "maxout":
            return
        init = initialization(config.initialization)
        wide = 2 * config.readout_units
        self.U_o = self.param("U_o", init.kernel, (config.decoder.units, wide))
        self.V_o = self.param("V_o", init.kernel, (config.embedding, wide))
        self.C_o = self.param("C_o", init.kernel, (config.annotation_units, wide))
        self.b_o = self.param("b_o", init.bias, (wide,))

    def __call__(
        self, state: Array, embedded: Array, context: Array, attentional: Array | None
    ) -> Array:
        """Reads out any number of steps at once.

        Args:
          state: s_{i-1} where the query is previous and the readout maxout, else s_i,
            `float32[..., H]`.
          embedded: E y_{i-1}, `float32[..., E]`.
          context: c_i, `float32[..., C]`.
          attentional: h̃_i, `float32[..., R]`, or None where the readout isn't attentional.

        Returns:
          t_i, `float32[..., R]` (linear: `float32[..., H]`).
        """
        if attentional is not None:
            return attentional
        if self.config.readout == "linear":
            return state
        proposal = state @ self.U_o + embedded @ self.V_o + context @ self.C_o
        proposal = proposal + jnp.broadcast_to(self.b_o, proposal.shape)
        # The paper takes the maximum of adjacent pairs; halves are the same up to the order of
        # the columns, and contiguous in memory.
        return jnp.maximum(*jnp.split(proposal, 2, axis=-1))
