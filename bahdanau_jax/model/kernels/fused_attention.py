"""Additive score, softmax and context as one Pallas kernel; here only for speed on accelerators.

tanh(W_a q + U_a h), of B·S·A values, stays inside the kernel, forwards and backwards: memory sees
the query, the keys, the annotations, and what comes out. On a CPU the kernel is interpreted, which
is slow and there for tests. No accelerator was measured yet, so that no model runs it.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl


@jax.custom_vjp
def fused_attention(
    query: Array, keys: Array, v_a: Array, annotations: Array, mask: Array
) -> tuple[Array, Array]:
    """Attends once, with global weights: Bahdanau et al. 2014, Equations 5 and 6, appendix A.1.2.

    Args:
      query: W_a q_i, `float32[B, A]`.
      keys: U_a h_j [+ b], `float32[B, S, A]`.
      v_a: `float32[A]`.
      annotations: h_j, `float32[B, S, C]`.
      mask: `bool[B, S]`, True where a position may receive weight.

    Returns:
      The context, `float32[B, C]`, and the alignment, `float32[B, S]`; both zero where a row's
      mask is False throughout.
    """
    (batch, positions, _), width = keys.shape, annotations.shape[2]
    arrays = _padded(query, keys, v_a, annotations, mask)
    rows, S, A, C = _sizes(arrays)
    context, alignment = _call(
        _forward_kernel,
        [(1, A), (1, S, A), (1, A), (1, S, C), (1, S)],
        [(1, C), (1, S)],
        [(rows, C), (rows, S)],
        query.dtype,
    )(*arrays)
    return context[:batch, :width], alignment[:batch, :positions]


def _forward(query, keys, v_a, annotations, mask):
    context, alignment = fused_attention(query, keys, v_a, annotations, mask)
    return (context, alignment), (query, keys, v_a, annotations, alignment)


def _backward(saved, cotangents):
    query, keys, v_a, annotations, alignment = saved
    d_context, d_alignment = cotangents
    (batch, positions, units), width = keys.shape, annotations.shape[2]
    arrays = _padded(query, keys, v_a, annotations, alignment)
    rows, S, A, C = _sizes(arrays)
    d_query, d_keys, d_v, d_annotations = _call(
        _backward_kernel,
        [(1, A), (1, S, A), (1, A), (1, S, C), (1, S), (1, C), (1, S)],
        [(1, A), (1, S, A), (1, A), (1, S, C)],
        [(rows, A), (rows, S, A), (rows, A), (rows, S, C)],
        query.dtype,
    )(*arrays, _pad(d_context, (rows, C)), _pad(d_alignment, (rows, S)))
    return (
        d_query[:batch, :units],
        d_keys[:batch, :positions, :units].astype(keys.dtype),
        d_v[:batch, :units].sum(0),
        d_annotations[:batch, :positions, :width].astype(annotations.dtype),
        None,
    )


fused_attention.defvjp(_forward, _backward)


def _forward_kernel(query, keys, v_a, annotations, mask, context, alignment):
    """One sentence: `equations.tanh_energies` and `equations.masked_softmax`, in Pallas's terms."""
    inside = jnp.tanh(query[0][None, :] + keys[0])
    energies = jnp.sum(inside * v_a[0][None, :], axis=1)
    real = mask[0] > 0
    lowest = jnp.finfo(energies.dtype).min
    peak = jnp.max(jnp.where(real, energies, lowest))
    weights = jnp.where(real, jnp.exp(jnp.where(real, energies - peak, 0.0)), 0.0)
    total = jnp.sum(weights)
    weights = weights / jnp.where(total > 0, total, 1.0)
    alignment[0] = weights
    context[0] = jnp.sum(weights[:, None] * annotations[0], axis=0)


def _backward_kernel(
    query,
    keys,
    v_a,
    annotations,
    alignment,
    d_context,
    d_alignment,
    d_query,
    d_keys,
    d_v,
    d_annotations,
):
    weights, into = alignment[0], d_context[0]
    d_annotations[0] = weights[:, None] * into[None, :]
    d_weights = d_alignment[0] + jnp.sum(annotations[0] * into[None, :], axis=1)
    d_energies = weights * (d_weights - jnp.sum(weights * d_weights))
    inside = jnp.tanh(query[0][None, :] + keys[0])
    d_v[0] = jnp.sum(inside * d_energies[:, None], axis=0)
    d_inside = (1 - inside * inside) * d_energies[:, None] * v_a[0][None, :]
    d_keys[0] = d_inside
    d_query[0] = jnp.sum(d_inside, axis=0)


def _call(kernel, inputs: list, outputs: list, shapes: list, dtype) -> Any:
    """Returns the kernel over a grid of one sentence a program; v_a is the same for all."""

    def spec(shape: tuple[int, ...], shared: bool = False) -> pl.BlockSpec:
        return pl.BlockSpec(shape, lambda row: (0 if shared else row, *(0 for _ in shape[1:])))

    return pl.pallas_call(
        kernel,
        grid=(shapes[0][0],),
        in_specs=[spec(shape, shared=place == 2) for place, shape in enumerate(inputs)],
        out_specs=[spec(shape) for shape in outputs],
        out_shape=[jax.ShapeDtypeStruct(shape, dtype) for shape in shapes],
        interpret=jax.default_backend() == "cpu",
    )


def _padded(query: Array, keys: Array, v_a: Array, annotations: Array, weights: Array) -> list:
    """Fills S, A and C up to powers of two, which kernels for GPUs need; zeros change nothing."""
    batch, S, A = keys.shape
    S, A, C = map(_power_of_two, (S, A, annotations.shape[2]))
    return [
        _pad(query, (batch, A)),
        _pad(keys, (batch, S, A)),
        _pad(v_a[None, :], (1, A)),
        _pad(annotations, (batch, S, C)),
        _pad(weights.astype(query.dtype), (batch, S)),
    ]


def _sizes(arrays: list) -> tuple[int, int, int, int]:
    """Returns B and the padded S, A and C."""
    return (*arrays[1].shape, arrays[3].shape[2])


def _pad(x: Array, shape: tuple[int, ...]) -> Array:
    return jnp.pad(x, [(0, to - now) for now, to in zip(x.shape, shape, strict=True)])


def _power_of_two(size: int) -> int:
    return 1 << (size - 1).bit_length()
