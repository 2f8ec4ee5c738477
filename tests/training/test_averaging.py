"""The moving average of the parameters: its value, and what reads it."""

import dataclasses

import jax
import numpy as np
import pytest
import tiny
from device_figures import STEPS, VOCABULARY, tiny_config
from same_run import quietly, saved_state

from bahdanau_jax.data.batching import Batch
from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.evaluation.trained_run import open_run
from bahdanau_jax.fields import with_values
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.runtime import devices
from bahdanau_jax.sweeps.replicas import create_states, make_replica_step, replica
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import TrainState, create_state, make_train_step
from bahdanau_jax.training.train import train
from bahdanau_jax.workdir.metrics_log import read_metrics

BATCH = Batch(
    np.array([[4, 5, 6, 2], [7, 2, 0, 0]], np.int32), np.array([[5, 6, 2], [8, 2, 0]], np.int32)
)
DECAY = 0.6


def setting(average):
    config = tiny_config()
    config.train.average = average
    model = Seq2Seq(config.model, VOCABULARY, VOCABULARY)
    optimizer = make_optimizer(config.train, STEPS)
    step = devices.on_devices(
        make_train_step(model, optimizer, config.train), outputs=None, donate=True
    )
    create = jax.jit(
        lambda: create_state(model, optimizer, 3, average), out_shardings=devices.replicated()
    )
    return create(), lambda state: step(state, devices.shard(BATCH))


def on_host(tree):
    return jax.tree.map(np.array, jax.device_get(tree))


def assert_close(ours, theirs, **tolerance):
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, **tolerance), ours, theirs)


def gaps(ours, theirs):
    """Returns the largest difference in each array."""
    pairs = zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True)
    return [np.abs(a - b).max() for a, b in pairs]


def test_the_average_is_the_sum_of_its_definition_and_training_does_not_see_it():
    plain, plain_step = setting(0.0)
    state, step = setting(DECAY)
    assert plain.trained is None
    expected = jax.tree.map(np.float64, on_host(state.params))
    assert_close(on_host(state.trained), expected, rtol=0)
    for t in range(12):
        plain, plain_sums = plain_step(plain)
        state, sums = step(state)
        assert_close(sums, plain_sums, rtol=1e-6)
        d = min(DECAY, (1 + t) / (10 + t))
        trained = on_host(state.trained)
        expected = jax.tree.map(lambda mean, x, d=d: d * mean + (1 - d) * x, expected, trained)
        assert_close(on_host(state.params), expected, rtol=1e-5, atol=1e-7)
        assert_close(trained, on_host(plain.params), rtol=1e-6, atol=1e-7)
    # Both halves of the rule were met, and the average lags behind.
    assert 1 / 10 < DECAY < 12 / 21 + 0.1
    assert max(gaps(expected, trained)) > 1e-2


def test_a_step_that_is_not_finite_leaves_average_and_parameters_as_they_are():
    state, step = setting(DECAY)
    state, _ = step(state)
    trained = dict(state.trained, W_o=state.trained["W_o"].at[0, 5].set(np.nan))
    state = dataclasses.replace(state, trained=trained)
    before = on_host((state.params, state.trained))
    state, sums = step(state)
    assert not sums.finite
    jax.tree.map(np.testing.assert_array_equal, on_host((state.params, state.trained)), before)


@pytest.mark.slow
def test_a_replica_has_the_average_of_its_own_run():
    config = tiny_config()
    config.train.average = DECAY
    configs = [with_values(config, {"seed": seed}) for seed in (3, 8)]
    model = Seq2Seq(config.model, VOCABULARY, VOCABULARY)
    together = devices.on_devices(make_replica_step(model, configs, STEPS), outputs=None)
    states = devices.replicate(create_states(model, configs, STEPS))
    state, step = setting(DECAY)
    for _ in range(3):
        states, _ = together(states, devices.shard(BATCH))
        state, _ = step(state)
    ours = replica(states, 0)
    assert_close(on_host(ours.params), on_host(state.params), atol=2e-4)
    assert_close(on_host(ours.trained), on_host(state.trained), atol=2e-4)


def averaging(source):
    config = tiny.config(source)
    config.train.average, config.train.steps, config.train.schedule = 0.9, 40, "constant"
    return config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A finished run, and its configuration."""
    directory = tmp_path_factory.mktemp("averaging")
    config = averaging(tiny.write_corpus(directory / "corpus"))
    quietly(config, directory / "run")
    return directory / "run", config


def test_evaluation_selection_and_decoding_use_the_average(run):
    directory, config = run
    step, state, progress = saved_state(directory, config, "best")
    assert min(gaps(state["params"], state["trained"])) > 1e-4
    opened = open_run(directory)
    jax.tree.map(np.testing.assert_array_equal, on_host(opened.params), state["params"])
    dev = open_data(config.data, opened.vocabularies, lambda _: None).evaluation_split("dev")
    rows = {row["step"]: row for row in read_metrics(directory) if "dev/per" in row}
    figures, _ = opened.evaluator.evaluate(opened.params, dev)
    assert figures["nll_per_token"] == pytest.approx(rows[step]["dev/nll_per_token"], rel=1e-6)
    assert figures["per"] == rows[step]["dev/per"] == progress["best"]
    others, _ = opened.evaluator.evaluate(devices.replicate(state["trained"]), dev)
    assert others["nll_per_token"] != pytest.approx(figures["nll_per_token"], rel=1e-4)


@pytest.mark.slow
def test_an_interrupted_run_goes_on_with_both(run, tmp_path):
    whole, config = run
    quietly(with_values(config, {"train.steps": 20}), tmp_path)
    quietly(config, tmp_path)
    for which in ("latest", "best"):
        ours, theirs = (saved_state(place, config, which) for place in (tmp_path, whole))
        assert ours[0] == theirs[0]
        jax.tree.map(np.testing.assert_array_equal, ours[1], theirs[1])


def test_init_from_begins_both_with_the_average(run, tmp_path, monkeypatch):
    directory, config = run
    _, origin, _ = saved_state(directory, config, "best")
    seen = {}
    original = TrainState.beginning_with

    def begin(self, params):
        state = original(self, params)
        seen["begun"] = on_host((state.params, state.trained))
        return state

    monkeypatch.setattr(TrainState, "beginning_with", begin)
    short = with_values(config, {"train.steps": 4})
    train(short, tmp_path / "run", [], init_from=directory)
    for begun in seen["begun"]:
        jax.tree.map(np.testing.assert_array_equal, begun, origin["params"])
