"""The scores e_ij: how well the input around position j and the output at i match.

Bahdanau et al. 2014, appendix A.1.2; Luong et al. 2015, section 3.1. The equations are in
`equations.py`. A score's `keys` depend on the annotations alone: once a sentence.

To add a score: its equation in `equations.py`; here a subclass of `Score`, its name in
`score_class` and its work in `score_cost`; a row in `allowed.SCORES`; and its energy in the
tests' oracle. `tests/model/test_every_score.py` names what is missing.
"""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import AttentionConfig, ModelConfig
from bahdanau_jax.model import equations
from bahdanau_jax.model.initialization import Initialization
from bahdanau_jax.model.kernels.decoder_loop import ScoreWeights

# The tanh over B·S·A is recomputed in the backward pass: storing it for every step of the decoder
# costs more time than computing it again, and T times the memory.
recomputed_tanh_energies = jax.checkpoint(equations.tanh_energies)


class Cost(NamedTuple):
    """Multiplications of a score in its matrix products, and its tanh; not those of the context."""

    keys: int  # of a source position, once a sentence
    query: int  # of a step
    energy: int  # of a source position at a step
    tanh: int = 0  # how many are taken of a source position at a step


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

    IN_LOOP = True  # False: the score has no form that `kernels.decoder_loop` knows

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

    def weights(self) -> ScoreWeights:
        """Returns what the decoder's fast loop needs to compute the energies; see `IN_LOOP`."""
        raise NotImplementedError

    def declare_gains(self, width: int) -> None:
        """Declares the gains of the layer norms of query and keys, where there are such norms."""
        self.gain_q = self.gain_k = None
        if self.config.normalize_keys:
            self.gain_q = self.param("gain_q", nn.initializers.ones, (width,))
            self.gain_k = self.param("gain_k", nn.initializers.ones, (width,))


def normalised(projected: Array, gain: Array | None) -> Array:
    """Returns the layer norm of queries or keys; as they are where there is no gain."""
    return projected if gain is None else equations.layer_norm(projected, gain)


class TanhScore(Score):
    """What additive and concat share: v_a, its normalised form, and a bias inside the tanh."""

    def declare_vector(self) -> None:
        """Declares v_a, and where configured its norm g, the bias b and the gains of the norms."""
        units = self.config.units
        self.declare_gains(units)
        self.v_a = self.param("v_a", self.initialize.alignment_vector, (units,))
        if self.config.normalize:
            # As Raffel et al. 2017 begin, and TensorFlow's BahdanauAttention(normalize=True).
            self.g = self.param("g", nn.initializers.constant(units**-0.5), ())
        if self.config.bias:
            self.b = self.param("b", self.initialize.bias, (units,))

    def finished(self, keys: Array) -> Array:
        """Returns keys, or their layer norm, [+ b]."""
        keys = normalised(keys, self.gain_k)
        return keys + self.b[None, None, :] if self.config.bias else keys

    def vector(self) -> Array:
        """Returns v_a, or g v_a / |v_a| (Salimans and Kingma 2016), `float32[A]`."""
        return equations.normalised(self.v_a, self.g) if self.config.normalize else self.v_a


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
        return self.finished(annotations @ self.U_a)

    def __call__(self, query: Array, keys: Array, coverage: Array | None = None) -> Array:
        """Returns the energies of one step."""
        if coverage is not None:
            keys = keys + coverage[:, :, None] * self.w_cov[None, None, :]
        projected = normalised(query @ self.W_a, self.gain_q)
        return recomputed_tanh_energies(projected, keys, self.vector())

    def weights(self) -> ScoreWeights:
        """Returns W_a, v_a and the gain of the query."""
        return ScoreWeights(self.W_a, self.vector(), None, gain=self.gain_q)


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
        return self.finished(annotations @ self.W_a[self.query_units :])

    def __call__(self, query: Array, keys: Array, coverage: Array | None = None) -> Array:
        """Returns the energies of one step."""
        projected = normalised(query @ self.W_a[: self.query_units], self.gain_q)
        return recomputed_tanh_energies(projected, keys, self.vector())

    def weights(self) -> ScoreWeights:
        """Returns the rows of W_a that meet the query, v_a, and the gain of the query."""
        rows = self.W_a[: self.query_units]
        return ScoreWeights(rows, self.vector(), None, gain=self.gain_q)


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
        return recomputed_tanh_energies(query @ self.W_a, keys, self.v_a)

    def weights(self) -> ScoreWeights:
        """Returns W_a and v_a."""
        return ScoreWeights(self.W_a, self.v_a, None)


class MultiplicativeScore(Score):
    """dot: q_iᵀ h_j; general: q_iᵀ W_a h_j; projected: (W_a q_i [+ b])ᵀ (U_a h_j).

    Luong et al. 2015, Equation 8; projected as in Britz et al. 2017, Equation 6. The scale sqrt
    divides by the root of the product's length (Vaswani et al. 2017), linear by the length (Yang et
    al. 2022); learned is a factor that begins at 1, as in TensorFlow's LuongAttention.
    google/seq2seq has a bias beside U_a, too. It would add the same to the energies of all
    positions, so that no weight would change; there is none here.
    """

    def setup(self):
        """Declares the matrices that the score names, and the learned scale."""
        init = self.initialize.alignment
        if self.config.score == "general":
            self.W_a = self.param("W_a", init, (self.query_units, self.annotation_units))
        elif self.config.score == "projected":
            self.W_a = self.param("W_a", init, (self.query_units, self.config.units))
            self.U_a = self.param("U_a", init, (self.annotation_units, self.config.units))
        self.b = None
        if self.config.bias:
            self.b = self.param("b", self.initialize.bias, (self.config.units,))
        self.declare_gains(self.length)
        if self.config.scale == "learned":
            self.scale = self.param("scale", nn.initializers.ones, ())

    def keys(self, annotations: Array) -> Array:
        """Returns h_j (dot, general) or U_a h_j (projected), or its layer norm."""
        keys = annotations @ self.U_a if self.config.score == "projected" else annotations
        return normalised(keys, self.gain_k)

    def __call__(self, query: Array, keys: Array, coverage: Array | None = None) -> Array:
        """Returns the energies of one step."""
        if self.config.score != "dot":
            query = query @ self.W_a
        if self.b is not None:
            query = query + self.b[None, :]
        query = normalised(query, self.gain_q)
        if self.config.scale == "sqrt":
            query = query / jnp.sqrt(jnp.asarray(self.length, query.dtype))
        elif self.config.scale == "linear":
            query = query / self.length
        elif self.config.scale == "learned":
            query = query * self.scale
        return equations.product_energies(query, keys)

    def weights(self) -> ScoreWeights:
        """Returns W_a, b and the gain, where there are such, and the factor of the products."""
        W_a = None if self.config.score == "dot" else self.W_a
        match self.config.scale:
            case "sqrt":
                factor = 1 / jnp.sqrt(self.length)
            case "linear":
                factor = jnp.asarray(1 / self.length)
            case "learned":
                factor = self.scale
            case _:
                factor = None
        return ScoreWeights(W_a, None, factor, self.b, self.gain_q)

    @property
    def length(self) -> int:
        """How many numbers of query and key are multiplied."""
        return self.config.units if self.config.score == "projected" else self.annotation_units


class UniformScore(Score):
    """e_ij = 0: every real position weighs the same. A control; its context is the mean of h_j."""

    def keys(self, annotations: Array) -> Array:
        """Returns no keys, `float32[B, S, 0]`."""
        return annotations[:, :, :0]

    def __call__(self, query: Array, keys: Array, coverage: Array | None = None) -> Array:
        """Returns zeros."""
        return jnp.zeros(keys.shape[:2], query.dtype)

    def weights(self) -> ScoreWeights:
        """Returns no weights: without keys every energy is zero."""
        return ScoreWeights(None, None, None)


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


def score_cost(config: ModelConfig) -> Cost:
    """Returns the work of a model's score; `fixed`, which has no energies, has none.

    Raises:
      ValueError: the score isn't among those whose work is known.
    """
    units, H, C = config.attention.units, config.decoder.units, config.annotation_units
    match config.attention.score:
        case "additive" | "concat":
            return Cost(keys=C * units, query=H * units, energy=units, tanh=units)
        case "concat_identity":
            return Cost(keys=0, query=H * C, energy=C, tanh=C)
        case "dot":
            return Cost(keys=0, query=0, energy=C)
        case "general":
            return Cost(keys=0, query=H * C, energy=C)
        case "projected":
            return Cost(keys=C * units, query=H * units, energy=units)
        case "uniform" | "fixed":
            return Cost(keys=0, query=0, energy=0)
        case name:
            raise ValueError(f"the work of the score {name!r} isn't known")
