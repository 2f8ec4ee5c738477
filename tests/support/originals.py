"""A preset beside its original: three sentences, both sides' probabilities, weights and gradients.

An original is a module of `tests/oracle/` with `parameter_shapes`, `log_probabilities` and `cost`,
in NumPy, that takes its own parameters by name, each an array. `as_ours` lays such parameters out
as this project does, by functions that JAX can differentiate.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bahdanau_jax.config import Config
from bahdanau_jax.model.equations import token_nll
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.special_ids import PAD

SOURCE_WORDS, TARGET_WORDS = 7, 8
# Three sentences of different lengths; 2 is the end mark.
X = np.array([[4, 5, 6, 4, 2], [6, 5, 2, 0, 0], [5, 2, 0, 0, 0]])
Y = np.array([[7, 4, 5, 2], [2, 0, 0, 0], [5, 6, 2, 0]])
# Time first, and a mask of numbers, as the originals have them.
INPUTS = X.T, (X != PAD).T.astype(float), Y.T, (Y != PAD).T.astype(float)

Arrays = dict[str, Any]


def random_params(original: ModuleType, *sizes: Any) -> Arrays:
    """Returns the original's parameters at these sizes, normal numbers so large that each tells."""
    chance = np.random.default_rng(0)
    shapes = original.parameter_shapes(SOURCE_WORDS, TARGET_WORDS, *sizes)
    return {name: chance.normal(0, 0.7, shape) for name, shape in shapes.items()}


def nll_and_weights(config: Config, ours: Any) -> tuple[jax.Array, Any]:
    """Returns -log p of each word [B, T], 0 at padding, and the weights [B, T, S]."""
    model = Seq2Seq(config.model, SOURCE_WORDS, TARGET_WORDS)
    logits: Any
    logits, alignments = model.apply({"params": ours}, X, Y)
    return jnp.where(Y == PAD, 0.0, token_nll(logits, jnp.asarray(Y))), alignments


def largest_difference(original: ModuleType, params: Arrays, config: Config, ours: Any) -> float:
    """Returns the largest difference of a word's log-probability or of a weight."""
    log_p, weights = original.log_probabilities(params, *INPUTS)
    nll, alignments = jax.jit(lambda p: nll_and_weights(config, p))(ours)
    of_weights = (np.asarray(alignments) - np.transpose(weights, (2, 0, 1)))[Y != PAD]
    return max(abs(nll + log_p.T).max(), abs(of_weights).max())


def assert_same_gradients(
    original: ModuleType, params: Arrays, config: Config, as_ours: Callable[[Arrays], Any]
) -> None:
    """Compares every component with central differences of the original's cost, to 1e-5."""
    normalizer = {"sentences": len(X), "tokens": (Y != PAD).sum()}[config.train.normalize]

    def cost(p):
        return nll_and_weights(config, as_ours(p))[0].sum() / normalizer

    gradients = jax.jit(jax.grad(cost))(params)
    for name, values in params.items():
        wanted = np.zeros_like(values)
        for place in np.ndindex(*values.shape):
            costs = []
            for step in (1e-5, -1e-5):
                moved = {**params, name: values.copy()}
                moved[name][place] += step
                costs.append(original.cost(moved, *INPUTS))
            wanted[place] = (costs[0] - costs[1]) / 2e-5
        np.testing.assert_allclose(gradients[name], wanted, atol=1e-5, err_msg=name)
