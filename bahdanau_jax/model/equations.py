"""Every equation of the model once, as a function of arrays. Read this file first.

The order is that of Bahdanau et al. 2014, "Neural Machine Translation by Jointly Learning to Align
and Translate": section 3.1, then appendix A. What others added stands beside the equation that it
changes, with its source. Vectors are rows, so that the paper's W x is written x W. A product with a
parameter that doesn't depend on the recurrence (W e(y), U_a h_j) is an argument here: it is taken
for all steps at once, outside the loop.

Letters in shapes: B sentences, S source positions, H units, C width of an annotation, A units of
the alignment model, R width of the readout, V words.
"""

import jax
import jax.numpy as jnp
from jax import Array

# Section 3.1: the context vector and the weights of its sum.


def context_vector(alignment: Array, annotations: Array) -> Array:
    """Returns c_i = Σ_j α_ij h_j (Equation 5), `float32[B, C]`.

    Args:
      alignment: α_ij, `float32[B, S]`.
      annotations: h_j, `float32[B, S, C]`.
    """
    return (alignment[:, :, None] * annotations).sum(axis=1)


def masked_softmax(energies: Array, mask: Array) -> Array:
    """Returns α_ij = exp(e_ij) / Σ_k exp(e_ik) over the allowed positions (Equation 6).

    Args:
      energies: e_ij, `float32[B, S]`.
      mask: `bool[B, S]`, True where a position may receive weight.

    Returns:
      `float32[B, S]`: rows sum to one; exactly zero where the mask is False; a row without any
      allowed position is zero throughout, and so is its gradient.
    """
    lowest = jnp.finfo(energies.dtype).min
    peak = jnp.max(energies, axis=-1, keepdims=True, where=mask, initial=lowest)
    # The inner `where` keeps masked energies out of the exponential, so that no gradient is 0 · ∞.
    shifted = jnp.where(mask, energies - jax.lax.stop_gradient(peak), 0.0)
    weights = jnp.where(mask, jnp.exp(shifted), 0.0)
    return share_of_sum(weights)


def share_of_sum(weights: Array) -> Array:
    """Returns the weights divided by their sum over the last axis; zeros where the sum is zero."""
    total = weights.sum(axis=-1, keepdims=True)
    return weights / jnp.where(total > 0, total, 1.0)


# Luong et al. 2015, section 3.2: local attention, whose weights lie in a window around p_i.


def monotonic_centre(step: Array, mask: Array) -> Array:
    """Returns local_m's centre p_i = min(i, S - 1), `float32[B]`.

    Args:
      step: i, counted from 0, `int32[]`.
      mask: `bool[B, S]`, True at real tokens; a row's S is their number.
    """
    return jnp.minimum(step, mask.sum(-1) - 1).astype(jnp.float32)


def predicted_centre(query: Array, W_p: Array, v_p: Array, mask: Array) -> Array:
    """Returns local_p's centre p_i = S · sigmoid(v_pᵀ tanh(W_p q_i)) (Luong, Equation 9).

    Args:
      query: q_i, `float32[B, H]`.
      W_p: `float32[H, H]`.
      v_p: `float32[H]`.
      mask: `bool[B, S]`, True at real tokens; a row's S is their number.

    Returns:
      `float32[B]`.
    """
    return mask.sum(-1) * jax.nn.sigmoid(jnp.tanh(query @ W_p) @ v_p)


def window_mask(centre: Array, half_width: int, mask: Array) -> Array:
    """Returns where |j - p_i| ≤ half_width and the token is real, `bool[B, S]`."""
    return mask & (jnp.abs(_offsets(centre, mask)) <= half_width)


def gaussian(centre: Array, half_width: int, mask: Array) -> Array:
    """Returns exp(-(j - p_i)² / 2σ²) with σ = half_width / 2 (Luong, Equation 10), `[B, S]`."""
    return jnp.exp(-2.0 * (_offsets(centre, mask) / half_width) ** 2)


def _offsets(centre: Array, mask: Array) -> Array:
    """Returns j - p_i, `float32[B, S]`."""
    return jnp.arange(mask.shape[1], dtype=jnp.float32)[None, :] - centre[:, None]


# Appendix A.1.1: the recurrence. With the paper's reset gate, "before" the product with U:
#   z, r = σ(W e(y) + U s + C c)    s̃ = tanh(W e(y) + U [r ∘ s] + C c)    s' = (1 - z) ∘ s + z ∘ s̃
# With that of cuDNN, PyTorch and Flax, "after" it, where z and 1 - z change places:
#                                   s̃ = tanh(W e(y) + r ∘ (U s + b_u) + C c)
#                                                                       s' = (1 - z) ∘ s̃ + z ∘ s
# `inputs` is what doesn't come from the state, W e(y) + b [+ C c]; `recurrent` is the product of
# the state and U. A cell takes each product where it needs it, and a loop may share one.


def gru_gates(inputs: Array, recurrent: Array) -> Array:
    """Returns the reset gate r and the update gate z side by side, `float32[B, 2H]`.

    Args:
      inputs: `float32[B, 2H]`.
      recurrent: s U, `float32[B, 2H]`.
    """
    return jax.nn.sigmoid(inputs + recurrent)


def gru_proposal(inputs: Array, recurrent: Array) -> Array:
    """Returns the proposal s̃, `float32[B, H]`.

    Args:
      inputs: `float32[B, H]`.
      recurrent: (r ∘ s) U where the reset gate acts before the product, r ∘ (s U + b_u) after it.
    """
    return jnp.tanh(inputs + recurrent)


def gru_before(s: Array, update: Array, proposal: Array) -> Array:
    """Returns (1 - z) ∘ s + z ∘ s̃, the next state of the paper's GRU, `float32[B, H]`."""
    return (1 - update) * s + update * proposal


def gru_after(s: Array, update: Array, proposal: Array) -> Array:
    """Returns (1 - z) ∘ s̃ + z ∘ s, the next state where the reset gate acts after the product."""
    return (1 - update) * proposal + update * s


def lstm(
    memory: Array, gates: Array, gain: Array | None = None, shift: Array | None = None
) -> tuple[Array, Array]:
    """Returns the next hidden state and memory of an LSTM without peepholes.

    Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.

    Args:
      memory: `float32[B, H]`.
      gates: all that each gate adds up: input, forget, proposal, output; `float32[B, 4H]`.
      gain: of the memory's layer normalisation where the output gate reads it, `float32[H]`; None
        for none (Ba, Kiros and Hinton 2016, supplement).
      shift: what is added to the normalised memory, `float32[H]`.

    Returns:
      Two of `float32[B, H]`.
    """
    admit, forget, proposal, emit = jnp.split(gates, 4, axis=-1)
    memory = jax.nn.sigmoid(forget) * memory + jax.nn.sigmoid(admit) * jnp.tanh(proposal)
    read = memory
    if gain is not None and shift is not None:
        read = layer_norm(memory, gain) + shift[None, :]
    return jax.nn.sigmoid(emit) * jnp.tanh(read), memory


def layer_norm(x: Array, gain: Array) -> Array:
    """Returns x with mean 0 and variance 1 over the last axis, times the gain; no bias is added.

    Ba, Kiros and Hinton 2016, section 3.1. What is added to the variance is that of their code,
    nmtpy and PyTorch.
    """
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * jnp.broadcast_to(gain, x.shape)


# Appendix A.1.2: the alignment model.


def tanh_energies(query: Array, keys: Array, v_a: Array) -> Array:
    """Returns e_ij = v_aᵀ tanh(W_a s_{i-1} + U_a h_j), `float32[B, S]`.

    Args:
      query: W_a s_{i-1}, `float32[B, A]`.
      keys: everything else inside the tanh, U_a h_j [+ b], `float32[B, S, A]`.
      v_a: `float32[A]`.
    """
    return jnp.tanh(query[:, None, :] + keys) @ v_a


def normalised(v_a: Array, g: Array) -> Array:
    """Returns g v_a / |v_a| (Salimans and Kingma 2016, Equation 2), `float32[A]`."""
    return g * v_a / jnp.linalg.norm(v_a)


def product_energies(query: Array, keys: Array) -> Array:
    """Returns e_ij = q_iᵀ k_j (Luong et al. 2015, Equation 8: dot, general), `float32[B, S]`.

    Args:
      query: s_i or W_a s_i, `float32[B, A]`.
      keys: h_j or U_a h_j, `float32[B, S, A]`.
    """
    return jnp.einsum("ba,bsa->bs", query, keys)


# Appendix A.2.2: the decoder.


def initial_state(vector: Array, W_s: Array) -> Array:
    """Returns s_0 = tanh(W_s ←h_1), `float32[B, H]`; the vector is ←h_1 or what stands for it."""
    return jnp.tanh(vector @ W_s)


def maxout(proposal: Array) -> Array:
    """Returns t_i = max of each pair of t̃_i = U_o s_{i-1} + V_o E y_{i-1} + C_o c_i.

    The paper takes the maximum of adjacent pairs; halves are the same up to the order of the
    columns, and contiguous in memory.

    Args:
      proposal: t̃_i, `float32[..., 2R]`.

    Returns:
      `float32[..., R]`.
    """
    return jnp.maximum(*jnp.split(proposal, 2, axis=-1))


def tanh_readout(proposal: Array) -> Array:
    """Returns t_i = tanh(U_o s_i [+ V_o E y_{i-1}] [+ C_o c_i] + b_o), `float32[..., R]`.

    The output of dl4mt's and nmtpy's decoders; with state and context alone that of Britz et al.
    2017.

    Args:
      proposal: what is inside the tanh, `float32[..., R]`.
    """
    return jnp.tanh(proposal)


def attentional_vector(proposal: Array) -> Array:
    """Returns h̃_i = tanh(W_c [c_i ; s_i]) (Luong et al. 2015, Equation 5), `float32[..., R]`.

    Args:
      proposal: W_c [c_i ; s_i], `float32[..., R]`.
    """
    return jnp.tanh(proposal)


# Section 2.1: what training minimises, -log p(y_i | y_1 … y_{i-1}, x). These are summed over
# tokens; the division by a count happens once, where the sums are complete.


def token_nll(logits: Array, target: Array) -> Array:
    """Returns -log p(y_i) of every token, in nats.

    Args:
      logits: `float32[..., V]`.
      target: ids, `int32[...]`.

    Returns:
      `float32[...]`.
    """
    chosen = jnp.take_along_axis(logits, target[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - chosen


def smoothed_nll(logits: Array, target: Array, smoothing: float | Array) -> Array:
    """Returns the cross entropy with (1 - ε) one-hot + ε uniform (Szegedy et al. 2016, section 7).

    Args:
      logits: `float32[..., V]`.
      target: ids, `int32[...]`.
      smoothing: ε, from 0 up to but not 1.

    Returns:
      `float32[...]`, in nats; with ε = 0 it is `token_nll`.
    """
    nll = token_nll(logits, target)
    if not isinstance(smoothing, Array) and smoothing == 0.0:
        return nll
    mean = jax.nn.logsumexp(logits, axis=-1) - logits.mean(axis=-1)
    return (1.0 - smoothing) * nll + smoothing * mean


def coverage_loss(alignments: Array) -> Array:
    """Returns Σ_j min(α_ij, Σ_{k<i} α_kj) of every step (See et al. 2017, Equations 10 and 12).

    It is the weight that falls on what has had weight before.

    Args:
      alignments: α_ij, `float32[T, B, S]`.

    Returns:
      `float32[T, B]`.
    """
    sums = jnp.cumsum(alignments[:-1], axis=0)
    past = jnp.concatenate([jnp.zeros_like(alignments[:1]), sums])
    return jnp.minimum(alignments, past).sum(axis=-1)


def guide_loss(alignments: Array, links: Array) -> Array:
    """Returns the cross entropy -Σ_j g_ij log α_ij of every step; a word without links has none.

    Liu et al. 2016 and Chen et al. 2016 add it to -log p. What is added to α_ij keeps the logarithm
    finite where a weight is zero, as outside a window; it is that of Marian's guided alignment.

    Args:
      alignments: α_ij, `float32[T, B, S]`.
      links: g_ij, `float32[T, B, S]`: the parts of the source words that word i is linked with, one
        together; zeros for a word without links.

    Returns:
      `float32[T, B]`, in nats.
    """
    return -(links * jnp.log(alignments + 1e-6)).sum(axis=-1)
