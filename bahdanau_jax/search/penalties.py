"""What makes hypotheses of different lengths comparable: length and coverage penalties.

A finished hypothesis of n tokens, end mark counted, has the score log p / lp(n) + cp.
"""

import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import DecodeConfig

LEAST_COVERED = 1e-6  # a word that no step attended to counts as attended to this much


def length_penalty(config: DecodeConfig, length: Array) -> Array:
    """Returns lp(n), by which a log-probability is divided: a float of the shape of `length`.

    none: 1. average: n, so that the score is the average log-probability (Bahdanau et al. 2014,
    section 4.2 and appendix B.2). gnmt: ((5 + n) / 6)^alpha (Wu et al. 2016, Equation 14).

    Args:
      config: `length_penalty` and `length_penalty_alpha` are read.
      length: n, tokens, end mark counted, a float of any shape.
    """
    match config.length_penalty:
        case "average":
            return jnp.maximum(length, 1)
        case "gnmt":
            return ((5 + length) / 6) ** config.length_penalty_alpha
        case _:
            return jnp.ones_like(length)


def coverage_penalty(config: DecodeConfig, covered: Array, words: Array) -> Array:
    """Returns cp = beta Σ_j log(min(Σ_i α_ij, 1)) (Wu et al. 2016, Equation 14), never positive.

    Args:
      config: `coverage_penalty` is beta.
      covered: Σ_i α_ij, `float[..., S]`.
      words: where j is a word of the source, not its end mark or padding, `bool[..., S]`.

    Returns:
      `float[...]`.
    """
    logs = jnp.log(jnp.clip(covered, LEAST_COVERED, 1.0))
    return config.coverage_penalty * jnp.where(words, logs, 0.0).sum(axis=-1)


def bound(config: DecodeConfig, log_p: Array, limit: Array) -> Array:
    """Returns what no continuation of a hypothesis can score more than.

    A continuation's log-probability is at most the hypothesis's own, its length at most the limit,
    and its coverage penalty at most zero. All three length penalties grow with the length, so a
    negative number is divided by the largest.

    Args:
      config: the penalties in force.
      log_p: of the hypothesis so far, at most 0, `float[...]`.
      limit: most tokens of a hypothesis, end mark counted, a float of the same shape.
    """
    return log_p / length_penalty(config, limit)
