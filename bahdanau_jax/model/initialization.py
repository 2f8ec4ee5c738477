"""How parameters start: one distribution for each role, by the name of a preset."""

import dataclasses

import jax
import jax.numpy as jnp
from flax.linen import initializers
from flax.typing import Initializer


@dataclasses.dataclass(frozen=True)
class Initialization:
    """The distributions of a preset, by the role that a parameter plays."""

    embedding: Initializer
    kernel: Initializer  # every matrix that no other role names
    recurrent: Initializer  # square, from a state to a gate of the next state
    alignment: Initializer  # W_a, U_a
    alignment_vector: Initializer  # v_a
    bias: Initializer


def initialization(name: str) -> Initialization:
    """Returns the preset `name`.

    Args:
      name: `glorot`; `paper`: Bahdanau et al. 2014, appendix B.1; `uniform`: Luong et al. 2015,
        section 4.1, every parameter from [-0.1, 0.1].
    """
    match name:
        case "glorot":
            return Initialization(
                embedding=initializers.normal(0.1),
                kernel=initializers.glorot_uniform(),
                recurrent=initializers.orthogonal(),
                alignment=initializers.glorot_uniform(),
                alignment_vector=_inverse_root_normal,
                bias=initializers.zeros,
            )
        case "paper":
            return Initialization(
                embedding=initializers.normal(0.01),
                kernel=initializers.normal(0.01),
                recurrent=initializers.orthogonal(),
                alignment=initializers.normal(0.001),
                alignment_vector=initializers.zeros,
                bias=initializers.zeros,
            )
        case "uniform":
            uniform = symmetric_uniform(0.1)
            return Initialization(uniform, uniform, uniform, uniform, uniform, uniform)
        case _:
            raise ValueError(f"unknown initialization {name!r}")


def symmetric_uniform(limit: float) -> Initializer:
    """Returns the uniform distribution on [-limit, limit)."""

    def init(key, shape, dtype=jnp.float32):
        return jax.random.uniform(key, shape, dtype, -limit, limit)

    return init


def per_gate(init: Initializer, gates: int) -> Initializer:
    """Draws each of `gates` column blocks by itself, so that fans and orthogonality are a gate's.

    Args:
      init: the distribution of one block, `float32[I, H]`.
      gates: number of blocks side by side.

    Returns:
      An initializer of `float32[I, gates * H]`.
    """

    def blocks(key, shape, dtype=jnp.float32):
        block = (*shape[:-1], shape[-1] // gates)
        return jnp.concatenate(
            [init(k, block, dtype) for k in jax.random.split(key, gates)], axis=-1
        )

    return blocks


def _inverse_root_normal(key, shape, dtype=jnp.float32):
    # An energy is a sum of A terms of size at most one; this keeps its deviation at most one.
    return jax.random.normal(key, shape, dtype) / jnp.sqrt(jnp.asarray(shape[0], dtype))
