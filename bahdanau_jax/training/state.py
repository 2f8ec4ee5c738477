"""The training state: everything that a step reads and replaces."""

import flax.struct
import jax
import jax.numpy as jnp
import optax
from jax import Array

from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params


@flax.struct.dataclass
class TrainState:
    """Replicated over the devices; one checkpoint holds all of it."""

    step: Array  # updates so far, int32[]
    params: dict
    opt_state: optax.OptState
    key: Array  # root key of dropout, key[]; folded, never split or replaced


def create_state(model: Seq2Seq, optimizer: optax.GradientTransformation, seed: int) -> TrainState:
    """Returns the state before the first update.

    Args:
      model: the model.
      optimizer: the optimiser.
      seed: of the initialisation and of dropout.
    """
    root = jax.random.key(seed)
    params = initial_params(model, jax.random.fold_in(root, 0))
    return TrainState(
        step=jnp.zeros((), jnp.int32),
        params=params,
        opt_state=optimizer.init(params),
        key=jax.random.fold_in(root, 1),
    )
