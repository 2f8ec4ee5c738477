"""Attention: from the energies of a score to the weights, and to the context vector.

Bahdanau et al. 2014, section 3.1; Luong et al. 2015, section 3. The scores are in `scores.py`, the
equations in `equations.py`.
"""

from typing import NamedTuple

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import AttentionConfig
from bahdanau_jax.model import equations, kernels
from bahdanau_jax.model.cells import CellState
from bahdanau_jax.model.initialization import Initialization, initialization
from bahdanau_jax.model.scores import score_class


class Memory(NamedTuple):
    """What the decoder knows of a batch of source sentences."""

    annotations: Array  # h_j, float32[B, S, C]; zero at padding
    keys: Array  # the part of the score that depends on h_j alone, float32[B, S, A]
    mask: Array  # bool[B, S], True at real tokens
    final: Array  # [→h_S ; ←h_1], the encoder's last states, float32[B, C]
    # Where the decoder starts from them: →h_S of each encoder layer, float32[B, H], with an LSTM's
    # memory; without what `residual` adds.
    layers: tuple[CellState, ...] = ()


def fused_kernel_covers(config: AttentionConfig) -> bool:
    """Returns whether `kernels.fused_attention` computes this attention."""
    plain = not (config.coverage or config.normalize_keys)
    return config.score == "additive" and config.window == "global" and plain


class Attention(nn.Module):
    """One step of attention: query and memory in, context and alignment out.

    Attributes:
      config: score, window and their options.
      query_units: size of q_i.
      annotation_units: size of h_j.
      initialize: the distributions of the parameters.
      kernels: `ModelConfig.kernels`.
    """

    config: AttentionConfig
    query_units: int
    annotation_units: int
    initialize: Initialization
    kernels: str = "auto"

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
        if fused_kernel_covers(self.config) and kernels.may_run("fused_attention", self.kernels):
            # Imported here: Pallas is slow to import, and few use it.
            from bahdanau_jax.model.kernels.fused_attention import fused_attention

            W_a, v_a, *_ = self.score.weights()
            assert W_a is not None and v_a is not None  # the score is additive
            return fused_attention(query @ W_a, memory.keys, v_a, memory.annotations, memory.mask)
        energies = self.score(query, memory.keys, coverage)
        alignment = self._weigh(energies, query, memory.mask, step)
        return equations.context_vector(alignment, memory.annotations), alignment

    def _weigh(self, energies: Array, query: Array, mask: Array, step: Array) -> Array:
        """Turns energies into weights inside the window, `float32[B, S]`."""
        half_width = self.config.half_width
        match self.config.window:
            case "local_m":
                centre = equations.monotonic_centre(step, mask)
                inside = equations.window_mask(centre, half_width, mask)
                return equations.masked_softmax(energies, inside)
            case "local_p":
                centre = equations.predicted_centre(query, self.W_p, self.v_p, mask)
                inside = equations.window_mask(centre, half_width, mask)
                weights = equations.masked_softmax(energies, inside)
                weights = weights * equations.gaussian(centre, half_width, mask)
                return equations.share_of_sum(weights) if self.config.renormalize else weights
            case _:
                return equations.masked_softmax(energies, mask)


def BahdanauAttention(
    units: int, query_units: int, annotation_units: int, *, normalize: bool = False
) -> Attention:
    """Returns additive attention, e_ij = v_aᵀ tanh(W_a q_i + U_a h_j), over the whole sentence.

    Bahdanau et al. 2014, section 3.1 and appendix A.1.2.

    Args:
      units: A, the hidden size of the alignment model.
      query_units: size of q_i.
      annotation_units: C, size of h_j.
      normalize: g v_a / |v_a| in place of v_a.
    """
    config = AttentionConfig(score="additive", units=units, normalize=normalize)
    return Attention(config, query_units, annotation_units, initialization("glorot"))


def LuongAttention(
    score: str, query_units: int, annotation_units: int, *, units: int = 128, scale: str = "none"
) -> Attention:
    """Returns attention by one of the scores of Luong et al. 2015, Equation 8, global.

    Args:
      score: dot | general | concat | projected; dot needs queries and annotations of one size.
      query_units: size of q_i.
      annotation_units: C, size of h_j.
      units: A, the hidden size of concat and projected.
      scale: none | sqrt | learned, of the products.
    """
    if score not in ("dot", "general", "concat", "projected"):
        raise ValueError(f"{score!r} is none of dot, general, concat and projected")
    config = AttentionConfig(score=score, units=units, scale=scale, query="current")
    return Attention(config, query_units, annotation_units, initialization("glorot"))
