"""Token losses as sums; the division by a count happens once, where the sums are complete."""

import jax
import jax.numpy as jnp
from jax import Array


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
