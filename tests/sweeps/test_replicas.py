import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny

from bahdanau_jax.data.batching import Batch
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import with_values
from bahdanau_jax.model.dropout import Noise, Place, Rates, dropout, varying_rate
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.runtime import devices
from bahdanau_jax.sweeps.replicas import check, create_states, make_replica_step, replica
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import create_state, make_train_step

STEPS, SOURCES, TARGETS = 50, 9, 11


@pytest.fixture(scope="module")
def batches():
    """Ragged batches."""
    chance = np.random.default_rng(0)

    def side(rows, width, entries):
        ids = chance.integers(4, entries, (rows, width)).astype(np.int32)
        ends = chance.integers(1, width, rows)
        ids[np.arange(width) > ends[:, None]] = 0
        ids[np.arange(rows), ends] = 3
        return ids

    return [Batch(side(8, 6, SOURCES), side(8, 5, TARGETS)) for _ in range(STEPS)]


def base():
    config = tiny.config("tsv:x")
    config.train.steps, config.train.learning_rate = STEPS, 3e-3
    return config


def run(function, state, batches):
    step = devices.on_devices(function, outputs=None)
    state, sums = devices.replicate(state), []
    for batch in batches:
        state, step_sums = step(state, devices.shard(batch))
        sums.append(jax.device_get(step_sums))
    return state, sums


FIELDS = {
    "seeds": [{"seed": 0}, {"seed": 5}],
    "numbers": [
        {
            "train.learning_rate": 3e-3,
            "train.clip_norm": 0.5,
            "train.label_smoothing": 0.0,
            "train.dropout.embedding": 0.0,
            "train.dropout.readout": 0.3,
        },
        {
            "train.learning_rate": 1e-2,
            "train.clip_norm": 2.0,
            "train.label_smoothing": 0.1,
            "train.dropout.embedding": 0.2,
            "train.dropout.readout": 0.1,
            "seed": 3,
        },
    ],
}


@pytest.mark.parametrize("kind", FIELDS)
def test_a_replica_ends_with_the_parameters_of_its_own_run(kind, batches):
    configs = [with_values(base(), values) for values in FIELDS[kind]]
    model = Seq2Seq(base().model, SOURCES, TARGETS)
    states, sums = run(
        make_replica_step(model, configs, STEPS), create_states(model, configs, STEPS), batches
    )
    for number, config in enumerate(configs):
        optimizer = make_optimizer(config.train, STEPS)
        begin = create_state(model, optimizer, config.seed)
        own, own_sums = run(make_train_step(model, optimizer, config.train), begin, batches)
        mine = replica(states, number)
        assert int(mine.step) == int(own.step) == STEPS
        jax.tree.map(
            # Adam turns the rounding of a tiny gradient into up to 1/500 of the learning rate.
            lambda a, b: np.testing.assert_allclose(a, b, atol=2e-5, rtol=0),
            mine.params,
            own.params,
        )
        # It has moved, or the comparison would say nothing.
        moved = jax.tree.map(lambda a, b: float(abs(a - b).max()), own.params, begin.params)
        assert min(jax.tree.leaves(moved)) > 1e-2
        for theirs, ours in zip(own_sums, sums, strict=True):
            np.testing.assert_allclose(ours.loss[number], theirs.loss, rtol=1e-4)
    losses = np.array([step_sums.loss for step_sums in sums])
    assert abs(losses[:, 0] - losses[:, 1]).min() > 0


def test_states_are_those_of_each_run_stacked():
    configs = [with_values(base(), {"seed": seed}) for seed in (4, 9)]
    model = Seq2Seq(base().model, SOURCES, TARGETS)
    states = create_states(model, configs, STEPS)
    own = create_state(model, make_optimizer(configs[1].train, STEPS), 9)
    jax.tree.map(np.testing.assert_array_equal, replica(states, 1).params, own.params)
    assert replica(states, 1).key == own.key


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.5, 0.999])
def test_a_rate_that_varies_makes_the_mask_of_the_number(rate):
    x = jnp.ones((40, 3, 50))
    noise = Noise(jnp.arange(3, dtype=jnp.uint32), Rates())
    fixed = dropout(x, rate, noise, Place.READOUT)
    varying = dropout(x, varying_rate(rate), noise, Place.READOUT)
    np.testing.assert_array_equal(fixed == 0, varying == 0)
    np.testing.assert_allclose(fixed, varying, rtol=1e-6)


def test_what_is_another_program_is_refused():
    check([with_values(base(), {"seed": seed, "train.learning_rate": 0.1}) for seed in (1, 2)])
    with pytest.raises(InputError, match=r"model\.attention\.units can't differ"):
        check([base(), with_values(base(), {"model.attention.units": 3})])
    with pytest.raises(InputError, match=r"train\.clip_norm=0 leaves the clipping out"):
        check([base(), with_values(base(), {"train.clip_norm": 0.0})])
