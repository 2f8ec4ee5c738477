"""A step whose loss or gradient isn't finite counts, and changes nothing else."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from device_figures import STEPS, VOCABULARY, tiny_config

from bahdanau_jax.data.batching import Batch
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.runtime.devices import AXIS
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import create_state, make_train_step

BATCH = Batch(
    np.array([[4, 5, 6, 2], [7, 2, 0, 0]], np.int32), np.array([[5, 6, 2], [8, 2, 0]], np.int32)
)


@pytest.fixture(scope="module")
def setting():
    """A state after one step, and the step, which takes several states at once as replicas do."""
    config = tiny_config()
    model = Seq2Seq(config.model, VOCABULARY, VOCABULARY)
    optimizer = make_optimizer(config.train, STEPS)
    step = make_train_step(model, optimizer, config.train)
    over_states = jax.vmap(step, in_axes=(0, None))
    over_devices = jax.vmap(over_states, in_axes=(None, 0), out_axes=0, axis_name=AXIS, axis_size=1)
    one_device = jax.tree.map(lambda x: x[None], BATCH)
    state = jax.jit(lambda: create_state(model, optimizer, 3))()

    def alone(state):
        mapped = jax.vmap(step, in_axes=(None, 0), axis_name=AXIS, axis_size=1)
        return jax.tree.map(lambda x: x[0], mapped(state, one_device))

    def together(states):
        return jax.tree.map(lambda x: x[0], over_devices(states, one_device))

    alone = jax.jit(alone)
    return alone(state)[0], alone, jax.jit(together)


def damaged(state, value):
    """Returns the state with one weight of the output layer at `value`."""
    weights = state.params["W_o"].at[0, 5].set(value)
    return dataclasses.replace(state, params={**state.params, "W_o": weights})


def learned(state):
    return jax.tree.map(np.asarray, (state.params, state.opt_state))


def assert_same(new, old):
    for mine, other in zip(jax.tree.leaves(new), jax.tree.leaves(old), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_changes_nothing_but_the_count(setting, value):
    state, alone, _ = setting
    before = damaged(state, value)
    after, sums = alone(before)
    assert not sums.finite
    assert after.step == before.step + 1
    assert_same(learned(after), learned(before))


def test_a_finite_one_changes_every_parameter_and_moment(setting):
    state, alone, _ = setting
    after, sums = alone(state)
    assert sums.finite
    for mine, other in zip(
        jax.tree.leaves(learned(after)), jax.tree.leaves(learned(state)), strict=True
    ):
        assert (mine != other).any()


def test_of_two_replicas_only_the_finite_one_is_updated(setting):
    state, alone, together = setting
    good, bad = state, damaged(state, np.nan)
    states = jax.tree.map(lambda *x: jnp.stack(x), good, bad)
    after, sums = together(states)
    assert sums.finite.tolist() == [True, False]
    wanted, _ = alone(good)
    first, second = (jax.tree.map(lambda x, r=r: x[r], after) for r in (0, 1))
    assert_same(learned(second), learned(bad))
    for mine, other in zip(
        jax.tree.leaves(learned(first)), jax.tree.leaves(learned(wanted)), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)
