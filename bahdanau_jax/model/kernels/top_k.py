"""The k largest of many numbers, faster than by `lax.top_k` alone."""

import math

import jax.numpy as jnp
from jax import Array, lax

LEAST = 512  # of fewer numbers, `lax.top_k` takes them at once


def largest(x: Array, count: int) -> tuple[Array, Array]:
    """Returns the largest numbers of the last axis and their places, as `lax.top_k`.

    The numbers are dealt to columns. The k largest lie in the k columns with the largest maxima,
    or in the rest that fills no row; `lax.top_k`, which visits numbers one by one, only sees the
    maxima and the numbers of those columns. The 5 largest of 8,000, 320 times over, on 2 CPU
    cores: 3.8 ms by `lax.top_k`, 0.7 ms so.

    Args:
      x: float[..., V].
      count: k, at most V.

    Returns:
      float[..., k] in descending order, and int32[..., k]. Of equal numbers the smaller place
      comes first, unless they are the largest of more than k columns.
    """
    size = x.shape[-1]
    if size < LEAST or count * 8 > size:
        return lax.top_k(x, count)
    columns = max(count, round(math.sqrt(count * size)) // 8 * 8)
    rows = size // columns
    dealt = x[..., : rows * columns].reshape(*x.shape[:-1], rows, columns)
    _, chosen = lax.top_k(dealt.max(axis=-2), count)
    chosen = jnp.sort(chosen, axis=-1)[..., None, :]  # so that places come in order
    members = jnp.take_along_axis(dealt, chosen, axis=-1)
    row = jnp.arange(rows, dtype=chosen.dtype).reshape(*(1 for _ in x.shape[1:]), rows, 1)
    places = row * columns + chosen
    rest = jnp.arange(rows * columns, size, dtype=chosen.dtype)
    flat = (*x.shape[:-1], rows * count)
    members = jnp.concatenate([members.reshape(flat), x[..., rows * columns :]], axis=-1)
    rest = jnp.broadcast_to(rest, (*x.shape[:-1], len(rest)))
    places = jnp.concatenate([places.reshape(flat), rest], axis=-1)
    values, order = lax.top_k(members, count)
    return values, jnp.take_along_axis(places, order, axis=-1)
