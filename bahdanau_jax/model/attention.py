"""Attention: from energies to weights to the context vector, and the windows that narrow them.

Bahdanau et al. 2014, section 3.1, Equations 5 and 6; local windows from Luong et al. 2015, section
3.2. The scores themselves are in `scores.py`.
"""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import AttentionConfig
from bahdanau_jax.model.initialization import Initialization
from bahdanau_jax.model.scores import AdditiveScore, score_class


class Memory(NamedTuple):
    """What the decoder knows of a batch of source sentences."""

    annotations: Array  # h_j, float32[B, S, C]; zero at padding
    keys: Array  # the part of the score that depends on h_j alone, float32[B, S, A]
    mask: Array  # bool[B, S], True at real tokens
    final: Array  # [→h_S ; ←h_1], the encoder's last states, float32[B, C]


def masked_softmax(energies: Array, mask: Array) -> Array:
    """Softmax over the allowed positions (Equation 6).

    Args:
      energies: e_ij, `float32[B, S]`.
      mask: `bool[B, S]`, True where a position may receive weight.

    Returns:
      α_ij, `float32[B, S]`: rows sum to one; exactly zero where the mask is False; a row without
      any allowed position is zero throughout, and so is its gradient.
    """
    lowest = jnp.finfo(energies.dtype).min
    peak = jnp.max(energies, axis=-1, keepdims=True, where=mask, initial=lowest)
    # The inner `where` keeps masked energies out of the exponential, so that no gradient is 0 · ∞.
    shifted = jnp.where(mask, energies - jax.lax.stop_gradient(peak), 0.0)
    weights = jnp.where(mask, jnp.exp(shifted), 0.0)
    total = weights.sum(axis=-1, keepdims=True)
    return weights / jnp.where(total > 0, total, 1.0)


def context_vector(alignment: Array, annotations: Array) -> Array:
    """Returns c_i = Σ_j α_ij h_j (Equation 5), `float32[B, C]`.

    Args:
      alignment: α_ij, `float32[B, S]`.
      annotations: h_j, `float32[B, S, C]`.
    """
    return (alignment[:, :, None] * annotations).sum(axis=1)


def monotonic_centre(step: Array, mask: Array) -> Array:
    """Returns local_m's centre p_i = min(i, S - 1), `float32[B]`; S counts a row's real tokens."""
    return jnp.minimum(step, mask.sum(-1) - 1).astype(jnp.float32)


def window_mask(centre: Array, half_width: int, mask: Array) -> Array:
    """Returns where |j - p_i| ≤ half_width and the token is real, `bool[B, S]`."""
    return mask & (jnp.abs(_offsets(centre, mask)) <= half_width)


def gaussian(centre: Array, half_width: int, mask: Array) -> Array:
    """Returns exp(-(j - p_i)² / 2σ²) with σ = half_width / 2 (Luong, Equation 10), `[B, S]`."""
    return jnp.exp(-2.0 * (_offsets(centre, mask) / half_width) ** 2)


def _offsets(centre: Array, mask: Array) -> Array:
    return jnp.arange(mask.shape[1], dtype=jnp.float32)[None, :] - centre[:, None]


class Attention(nn.Module):
    """One step of attention: query and memory in, context and alignment out.

    Attributes:
      config: score, window and their options.
      query_units: size of q_i.
      annotation_units: size of h_j.
      initialize: the distributions of the parameters.
    """

    config: AttentionConfig
    query_units: int
    annotation_units: int
    initialize: Initialization

    def setup(self):
        """Declares the score, and the predictor of local_p's centre."""
        if self.config.score != "fixed":
            self.score = score_class(self.config.score)(
                self.config, self.query_units, self.annotation_units, self.initialize
            )
        if self.config.window == "local_p":
            square = (self.query_units, self.query_units)
            self.W_p = self.param("W_p", self.initialize.alignment, square)
            self.v_p = self.param("v_p", self.initialize.alignment_vector, square[:1])

    def keys(self, annotations: Array) -> Array:
        """Returns the score's part that depends on h_j alone, `float32[B, S, A]`."""
        return (
            annotations[:, :, :0] if self.config.score == "fixed" else self.score.keys(annotations)
        )

    def __call__(
        self, query: Array, memory: Memory, step: Array, coverage: Array | None = None
    ) -> tuple[Array, Array]:
        """Attends once.

        Args:
          query: q_i, `float32[B, H]`.
          memory: the source sentences.
          step: i, counted from 0, `int32[]`; read by local_m.
          coverage: Σ_{k<i} α_kj, `float32[B, S]`, or None.

        Returns:
          The context c_i, `float32[B, C]`, and the alignment α_ij, `float32[B, S]`. With `fixed`
          the context is the encoder's last states, and the alignment points to the last token.
        """
        if self.config.score == "fixed":
            last = memory.mask.sum(-1, keepdims=True) - 1
            positions = jnp.arange(memory.mask.shape[1])[None, :]
            return memory.final, (positions == last).astype(query.dtype)
        if self.config.kernel == "pallas":
            return self._fused(query, memory)
        energies = self.score(query, memory.keys, coverage)
        alignment = self._weigh(energies, query, memory.mask, step)
        return context_vector(alignment, memory.annotations), alignment

    def _fused(self, query: Array, memory: Memory) -> tuple[Array, Array]:
        """Attends by the kernel, which computes the additive score too."""
        # Imported here: Pallas is slow to import, and few use it.
        from bahdanau_jax.model.kernels.fused_attention import fused_attention

        score = self.score
        assert isinstance(score, AdditiveScore)
        projected = query @ score.W_a
        return fused_attention(
            projected, memory.keys, score.vector(), memory.annotations, memory.mask
        )

    def _weigh(self, energies: Array, query: Array, mask: Array, step: Array) -> Array:
        """Turns energies into weights inside the window, `float32[B, S]`."""
        half_width = self.config.half_width
        match self.config.window:
            case "local_m":
                centre = monotonic_centre(step, mask)
                return masked_softmax(energies, window_mask(centre, half_width, mask))
            case "local_p":
                share = nn.sigmoid(jnp.tanh(query @ self.W_p) @ self.v_p)
                centre = mask.sum(-1) * share  # p_i = S · sigmoid(v_pᵀ tanh(W_p q_i))
                inside = window_mask(centre, half_width, mask)
                weights = masked_softmax(energies, inside) * gaussian(centre, half_width, mask)
                if not self.config.renormalize:
                    return weights
                total = weights.sum(-1, keepdims=True)
                return weights / jnp.where(total > 0, total, 1.0)
            case _:
                return masked_softmax(energies, mask)
