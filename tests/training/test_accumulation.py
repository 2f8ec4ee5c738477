from typing import Any

import jax
import numpy as np
import pytest

from bahdanau_jax.config import Config
from bahdanau_jax.data.batching import Batch
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.runtime import devices
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import create_state, make_train_step


def trained(accumulate: int) -> tuple[Any, Any]:
    """Returns the parameters and the figures after two steps on six ragged pairs."""
    config = Config()
    model, train = config.model, config.train
    model.embedding = model.encoder.units = model.decoder.units = 4
    model.attention.units = model.readout_units = 4
    train.optimizer, train.learning_rate, train.clip_norm = "sgd", 0.5, 0.0
    train.label_smoothing, train.accumulate = 0.1, accumulate
    train.dropout.embedding = train.dropout.annotations = train.dropout.readout = 0.3
    rng = np.random.default_rng(0)
    sides = []
    for length in (5, 4):
        ids = rng.integers(3, 9, (6, length)).astype(np.int32)
        lengths = rng.integers(1, length + 1, 6) * (np.arange(6) < 5)  # the last row is filler
        sides.append(np.where(np.arange(length)[None, :] < lengths[:, None], ids, 0))
    seq2seq, optimizer = Seq2Seq(model, 9, 9), make_optimizer(train, 9)
    state = devices.replicate(jax.jit(lambda: create_state(seq2seq, optimizer, 0))())
    step: Any = devices.on_devices(make_train_step(seq2seq, optimizer, train), outputs=None)
    for _ in range(2):
        state, sums = step(state, devices.shard(Batch(*sides)))
    return jax.device_get(state.params), jax.device_get(sums)


@pytest.mark.parametrize("parts", [2, 3, 6])
def test_parts_of_a_batch_add_up_to_the_whole(parts):
    params, sums = trained(1)
    other_params, other_sums = trained(parts)
    assert other_sums.tokens == sums.tokens
    np.testing.assert_allclose(other_sums, sums, rtol=1e-5)
    for whole, added in zip(jax.tree.leaves(params), jax.tree.leaves(other_params), strict=True):
        np.testing.assert_allclose(added, whole, rtol=1e-5, atol=1e-6)
