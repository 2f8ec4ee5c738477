"""Dropout whose masks depend on an example's place in the global batch, and on nothing else.

The number of devices, and which device holds an example, change no mask.
"""

import enum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array


class Place(enum.IntEnum):
    """Where dropout acts; part of the key, so that no two places share a mask."""

    SOURCE_EMBEDDING = 0
    TARGET_EMBEDDING = 1
    ANNOTATIONS = 2
    READOUT = 3
    SOURCE_WORDS = 4
    TARGET_WORDS = 5
    ENCODER_LAYERS = 6
    DECODER_LAYERS = 7
    FORWARD_STATES = 8
    BACKWARD_STATES = 9
    DECODER_STATES = 10
    TRANSITION_STATES = 11

    def of_layer(self, layer: int) -> int:
        """Returns the place of the same kind in a layer, counted from 0."""
        return self + 32 * layer


class Rates(NamedTuple):
    """Probabilities that a component is zeroed, from 0 up to but not 1."""

    source_words: "float | VaryingRate" = 0.0
    target_words: "float | VaryingRate" = 0.0
    embedding: "float | VaryingRate" = 0.0
    layers: "float | VaryingRate" = 0.0
    states: "float | VaryingRate" = 0.0
    annotations: "float | VaryingRate" = 0.0
    readout: "float | VaryingRate" = 0.0


class VaryingRate(NamedTuple):
    """A rate that isn't known before the program runs, as where it differs between replicas."""

    threshold: Array  # random words below it zero their component, uint32[]
    kept: Array  # probability that a component is kept, float32[]


class Noise(NamedTuple):
    """The randomness of one training step."""

    seeds: Array  # one an example, uint32[B]
    rates: Rates


def example_seeds(root: Array, step: Array, rows: Array) -> Array:
    """Returns one seed an example.

    Args:
      root: the run's key for dropout, `key[]`.
      step: number of the update, `int32[]`.
      rows: places in the global batch, `int32[B]`.

    Returns:
      `uint32[B]`, drawn from the key folded from (root, step, row).
    """
    keys = jax.vmap(jax.random.fold_in, (None, 0))(jax.random.fold_in(root, step), rows)
    return jax.vmap(lambda key: jax.random.bits(key, (), jnp.uint32))(keys)


def varying_rate(rate: float) -> VaryingRate:
    """Returns a rate as arrays; it makes the same masks as the number."""
    return VaryingRate(jnp.uint32(_threshold(rate)), jnp.float32(1.0 - rate))


def dropout(x: Array, rate: float | VaryingRate, noise: Noise | None, place: int) -> Array:
    """Zeroes components at random and divides the rest by the probability of keeping them.

    Args:
      x: time-major, `float32[T, B, N]`.
      rate: probability of zero.
      noise: the step's randomness; None returns `x` as it is.
      place: a `Place`, or one of a layer: which dropout this is.

    Returns:
      `float32[T, B, N]`, of the same expectation as `x`.
    """
    return x if noise is None else _dropped(x, rate, noise, place, x.shape[0], x.shape[2])


def word_dropout(x: Array, rate: float | VaryingRate, noise: Noise | None, place: int) -> Array:
    """Zeroes whole words at random and divides the others by the probability of keeping them.

    Each position is drawn for itself, and the rest is scaled, as in Nematus (Sennrich and Zhang
    2019, section 3.1). Gal and Ghahramani 2016, section 4.2, drop every occurrence of a word in
    the sentence at once.

    Args:
      x: embedded words, time-major, `float32[T, B, E]`.
      rate: probability that a word is zeroed.
      noise: the step's randomness; None returns `x` as it is.
      place: which dropout this is.

    Returns:
      `float32[T, B, E]`, of the same expectation as `x`.
    """
    return x if noise is None else _dropped(x, rate, noise, place, x.shape[0], 1)


def state_factors(
    size: int, rate: float | VaryingRate, noise: Noise | None, place: int, dtype: Any = jnp.float32
) -> Array | None:
    """Returns what a recurrence's state is multiplied by at every step of a sentence.

    Gal and Ghahramani 2016, section 4.1: one mask for all steps.

    Args:
      size: H, components of the state.
      rate: probability that a component is zero.
      noise: the step's randomness; None for none.
      place: which dropout this is.
      dtype: of the result.

    Returns:
      0 or 1 / (1 - rate), `float32[B, H]`; None where nothing is dropped.
    """
    if noise is None or is_off(rate):
        return None
    ones = jnp.ones((1, noise.seeds.shape[0], size), dtype)
    return _dropped(ones, rate, noise, place, 1, size)[0]


def is_off(rate: float | VaryingRate) -> bool:
    """Returns whether a rate is known to drop nothing."""
    return not isinstance(rate, VaryingRate) and rate == 0.0


def _dropped(
    x: Array, rate: float | VaryingRate, noise: Noise, place: int, steps: int, size: int
) -> Array:
    """Drops what one random word each decides, of `[steps, B, size]`, in `x`, `[T, B, N]`."""
    if is_off(rate):
        return x
    seeds = _mix(noise.seeds ^ jnp.uint32(0x9E3779B9 * (1 + place) % 2**32))
    element = jnp.arange(steps * size, dtype=jnp.uint32).reshape(steps, 1, size)
    # One integer hash an element fuses with the product below it. Threefry for every element made
    # a training step on two CPU cores 1.8 times as long, and its compilation 2.5 times.
    bits = _mix(seeds[None, :, None] ^ _mix(element))
    if isinstance(rate, VaryingRate):
        return jnp.where(bits >= rate.threshold, x / rate.kept, 0.0)
    return jnp.where(bits >= jnp.uint32(_threshold(rate)), x / (1.0 - rate), 0.0)


def _threshold(rate: float) -> int:
    """Returns the threshold below which a random word of 32 bits zeroes its component."""
    return int(rate * 2**32)


def _mix(x: Array) -> Array:
    """The finaliser of MurmurHash3 (Appleby): a bijection of uint32 in which every bit matters."""
    x = (x ^ (x >> 16)) * jnp.uint32(0x85EBCA6B)
    x = (x ^ (x >> 13)) * jnp.uint32(0xC2B2AE35)
    return x ^ (x >> 16)
