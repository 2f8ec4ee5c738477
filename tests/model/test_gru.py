import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import quick_jit

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.cells import GRUAfter, make_cell
from bahdanau_jax.model.encoder import Encoder, covers, recur, recur_by_kernel

LENGTHS = [5, 2, 1, 0]
MASK = np.arange(5)[:, None] < np.array(LENGTHS)[None, :]
UNITS, INPUTS = 4, 3

forms = pytest.mark.parametrize("reset", ["before", "after"])
directions = pytest.mark.parametrize("reverse", [False, True])


def make(reset):
    return make_cell(ModelConfig(gru_reset=reset), "encoder", UNITS, INPUTS)


def parameters(cell, scale):
    shapes = {"W": (INPUTS, 3 * UNITS), "U": (UNITS, 3 * UNITS), "b": (3 * UNITS,)}
    if isinstance(cell, GRUAfter):
        shapes["b_u"] = (UNITS,)
    rng = np.random.default_rng(0)
    return {name: scale * rng.normal(size=shape) for name, shape in shapes.items()}


def run(cell, params, inputs, reverse, recur=recur_by_kernel):
    """Returns the states, and the gradient of something that reads all of them."""
    weights = np.cos(np.arange(MASK.size * UNITS)).reshape(*MASK.shape, UNITS)

    def scalar(params, inputs):
        mask = jnp.asarray(MASK)
        states = cell.apply(
            {"params": params}, method=lambda cell: recur(cell, inputs, mask, reverse=reverse)[0]
        )
        return (jnp.sin(states) * weights).sum(), states

    return quick_jit(jax.value_and_grad(scalar, (0, 1), has_aux=True))(params, inputs)


def some_inputs():
    return np.random.default_rng(1).normal(size=(*MASK.shape, INPUTS))


@forms
@directions
@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_states_and_gradients_are_those_of_the_scanned_cell(reset, reverse, scale):
    cell = make(reset)
    with jax.enable_x64(True):
        params = parameters(cell, scale)
        ours = run(cell, params, some_inputs(), reverse)
        theirs = run(cell, params, some_inputs(), reverse, recur)
    ours, theirs = jax.tree.map(np.asarray, (ours, theirs))
    assert min(np.abs(g).max() for g in jax.tree.leaves(theirs[1])) > 0
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-10, atol=1e-12)


@forms
@directions
def test_padding_hands_the_state_on_bit_for_bit_and_gets_no_gradient(reset, reverse):
    cell = make(reset)
    inputs = np.where(MASK[:, :, None], some_inputs(), 50.0).astype(np.float32)
    params = jax.tree.map(np.float32, parameters(cell, 3.0))
    (_, states), (_, gradient) = run(cell, params, inputs, reverse)
    states = np.asarray(states)
    assert not np.asarray(gradient)[~MASK].any()
    for row, length in enumerate(LENGTHS):
        real = states[:length, row]
        before = np.zeros(UNITS, np.float32) if reverse or not length else real[-1]
        assert (states[length:, row] == before).all()


def test_it_covers_no_cell_whose_equations_it_does_not_have():
    for config in (
        ModelConfig(cell="lstm"),
        ModelConfig(layer_norm="encoder"),
        ModelConfig(layer_norm="both"),
    ):
        assert not covers(config), config
    for config in (
        ModelConfig(),
        ModelConfig(gru_reset="after"),
        ModelConfig(layer_norm="decoder"),
    ):
        assert covers(config), config


@pytest.mark.parametrize("kernels", ["auto", "reference"])
def test_the_field_chooses_between_the_two_loops(kernels):
    config = ModelConfig(embedding=INPUTS, kernels=kernels)
    config.encoder.units = UNITS
    inputs = jnp.asarray(some_inputs(), jnp.float32)
    traced = jax.make_jaxpr(lambda: Encoder(config).init(jax.random.key(0), inputs, MASK))()
    assert ("remat" in str(traced) or "checkpoint" in str(traced)) == (kernels == "reference")
