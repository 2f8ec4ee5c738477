"""Alignment scores e_ij: how well source position j fits the query of step i.

Bahdanau et al. 2014, section 3.1 and appendix A.1.2; Luong et al. 2015, Equation 8. Each score has
a part that depends on the annotations alone, `keys`, which is computed once a sentence.
"""

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import AttentionConfig
from bahdanau_jax.model.initialization import Initialization


def tanh_energies(query: Array, keys: Array, v_a: Array) -> Array:
    """Returns e_ij = v_aᵀ tanh(query_i + keys_j), `float32[B, S]`.

    Args:
      query: the query's part inside the tanh, `float32[B, A]`.
      keys: everything else inside it, `float32[B, S, A]`.
      v_a: `float32[A]`.
    """
    return jnp.tanh(query[:, None, :] + keys) @ v_a


# The tanh over B·S·A is recomputed in the backward pass: storing it for every step of the decoder
# costs more time than computing it again, and T times the memory.
recomputed_tanh_energies = jax.checkpoint(tanh_energies)


class Score(nn.Module):
    """What every score has.

    Attributes:
      config: which score, and its options.
      query_units: size of q_i.
      annotation_units: size of h_j.
      initialize: the distributions of the parameters.
    """

    config: AttentionConfig
    query_units: int
    annotation_units: int
    initialize: Initialization

    def keys(self, annotations: Array) -> Array:
        """Returns the part that depends on the annotations alone, `float32[B, S, A]`."""
        raise NotImplementedError

    def __call__(self, query: Array, keys: Array, coverage: Array | None = None) -> Array:
        """Returns the energies of one step.

        Args:
          query: q_i, `float32[B, H]`.
          keys: what `keys` returned, `float32[B, S, A]`.
          coverage: Σ_{k<i} α_kj, `float32[B, S]`; None where the score doesn't read it.

        Returns:
          e_ij, `float32[B, S]`; padding is not yet masked.
        """
        raise NotImplementedError


class TanhScore(Score):
    """What additive and concat share: v_a, its normalised form, and a bias inside the tanh."""

    def declare_vector(self) -> None:
        """Declares v_a, and where configured its norm g and the bias b."""
        units = self.config.units
        self.v_a = self.param("v_a", self.initialize.alignment_vector, (units,))
        if self.config.normalize:
            self.g = self.param("g", nn.initializers.ones, ())
        if self.config.bias:
            self.b = self.param("b", self.initialize.bias, (units,))

    def with_bias(self, keys: Array) -> Array:
        """Returns keys [+ b]."""
        return keys + self.b[None, None, :] if self.config.bias else keys

    def vector(self) -> Array:
        """Returns v_a, or g v_a / |v_a| (Salimans and Kingma 2016), `float32[A]`."""
        if not self.config.normalize:
            return self.v_a
        return self.g * self.v_a / jnp.linalg.norm(self.v_a)


class AdditiveScore(TanhScore):
    """e_ij = v_aᵀ tanh(W_a q_i + U_a h_j [+ b] [+ w_cov Σ_{k<i} α_kj]).

    Bahdanau et al. 2014, appendix A.1.2; coverage as in See, Liu and Manning 2017, Equation 11.
    """

    def setup(self):
        """Declares W_a, U_a, v_a and the optional g, b and w_cov."""
        init, units = self.initialize.alignment, self.config.units
        self.W_a = self.param("W_a", init, (self.query_units, units))
        self.U_a = self.param("U_a", init, (self.annotation_units, units))
        self.declare_vector()
        if self.config.coverage:
            self.w_cov = self.param("w_cov", self.initialize.alignment_vector, (units,))

    def keys(self, annotations: Array) -> Array:
        """Returns U_a h_j [+ b]."""
        return self.with_bias(annotations @ self.U_a)

    def __call__(self, query: Array, keys: Array, coverage: Array | None = None) -> Array:
        """Returns the energies of one step."""
        if coverage is not None:
            keys = keys + coverage[:, :, None] * self.w_cov[None, None, :]
        return recomputed_tanh_energies(query @ self.W_a, keys, self.vector())


class ConcatScore(TanhScore):
    """e_ij = v_aᵀ tanh(W_a [q_i ; h_j] [+ b]): Luong et al. 2015, Equation 8, concat.

    The same function as the additive score, with W_a and U_a stacked in one matrix.
    """

    def setup(self):
        """Declares W_a, whose upper rows meet the query and whose lower rows the annotation."""
        rows = self.query_units + self.annotation_units
        self.W_a = self.param("W_a", self.initialize.alignment, (rows, self.config.units))
        self.declare_vector()

    def keys(self, annotations: Array) -> Array:
        """Returns the annotation's part of W_a [q ; h] [+ b]."""
        return self.with_bias(annotations @ self.W_a[self.query_units :])

    def __call__(self, query: Array, keys: Array, coverage: Array | None = None) -> Array:
        """Returns the energies of one step."""
        del coverage
        projected = query @ self.W_a[: self.query_units]
        return recomputed_tanh_energies(projected, keys, self.vector())


class ConcatIdentityScore(Score):
    """e_ij = v_aᵀ tanh(W_a q_i + h_j): concat with its part on h_j fixed to the identity."""

    def setup(self):
        """Declares W_a and v_a, both of the annotations' width."""
        width = self.annotation_units
        self.W_a = self.param("W_a", self.initialize.alignment, (self.query_units, width))
        self.v_a = self.param("v_a", self.initialize.alignment_vector, (width,))

    def keys(self, annotations: Array) -> Array:
        """Returns h_j."""
        return annotations

    def __call__(self, query: Array, keys: Array, coverage: Array | None = None) -> Array:
        """Returns the energies of one step."""
        del coverage
        return recomputed_tanh_energies(query @ self.W_a, keys, self.v_a)


class MultiplicativeScore(Score):
    """dot: q_iᵀ h_j; general: q_iᵀ W_a h_j; projected: (W_a q_i)ᵀ (U_a h_j); each may be scaled.

    Luong et al. 2015, Equation 8; projected as in Britz et al. 2017, Equation 6. The scale sqrt
    divides by the root of the product's length (Vaswani et al. 2017); learned is a factor.
    """

    def setup(self):
        """Declares the matrices that the score names, and the learned scale."""
        init = self.initialize.alignment
        if self.config.score == "general":
            self.W_a = self.param("W_a", init, (self.query_units, self.annotation_units))
        elif self.config.score == "projected":
            self.W_a = self.param("W_a", init, (self.query_units, self.config.units))
            self.U_a = self.param("U_a", init, (self.annotation_units, self.config.units))
        if self.config.scale == "learned":
            self.scale = self.param("scale", nn.initializers.ones, ())

    def keys(self, annotations: Array) -> Array:
        """Returns h_j (dot, general) or U_a h_j (projected)."""
        return annotations @ self.U_a if self.config.score == "projected" else annotations

    def __call__(self, query: Array, keys: Array, coverage: Array | None = None) -> Array:
        """Returns the energies of one step."""
        del coverage
        if self.config.score != "dot":
            query = query @ self.W_a
        if self.config.scale == "sqrt":
            query = query / jnp.sqrt(jnp.asarray(keys.shape[-1], query.dtype))
        elif self.config.scale == "learned":
            query = query * self.scale
        return jnp.einsum("ba,bsa->bs", query, keys)


class UniformScore(Score):
    """e_ij = 0: every real position weighs the same. A control; its context is the mean of h_j."""

    def keys(self, annotations: Array) -> Array:
        """Returns no keys, `float32[B, S, 0]`."""
        return annotations[:, :, :0]

    def __call__(self, query: Array, keys: Array, coverage: Array | None = None) -> Array:
        """Returns zeros."""
        del coverage
        return jnp.zeros(keys.shape[:2], query.dtype)


def score_class(name: str) -> type[Score]:
    """Returns the score of this name, as in `config.AttentionConfig.score`; not `fixed`."""
    match name:
        case "additive":
            return AdditiveScore
        case "concat":
            return ConcatScore
        case "concat_identity":
            return ConcatIdentityScore
        case "dot" | "general" | "projected":
            return MultiplicativeScore
        case "uniform":
            return UniformScore
        case _:
            raise ValueError(f"{name!r} is no score")
