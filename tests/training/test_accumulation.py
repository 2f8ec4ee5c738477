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


def trained(accumulate: int, normalize: str = "tokens", steps: int = 2) -> tuple[Any, Any]:
    """Returns the parameters and the figures after some steps on six ragged pairs."""
    config = Config()
    model, train = config.model, config.train
    model.embedding = model.encoder.units = model.decoder.units = 4
    model.attention.units = model.readout_units = 4
    train.optimizer, train.learning_rate, train.clip_norm = "sgd", 0.5, 0.0
    train.label_smoothing, train.accumulate, train.normalize = 0.1, accumulate, normalize
    train.coverage, train.guide = 0.5, 0.3
    train.dropout.embedding = train.dropout.annotations = train.dropout.readout = 0.3
    rng = np.random.default_rng(0)
    sides = []
    for length in (5, 4):
        ids = rng.integers(3, 9, (6, length)).astype(np.int32)
        lengths = rng.integers(1, length + 1, 6) * (np.arange(6) < 5)  # the last row is filler
        sides.append(np.where(np.arange(length)[None, :] < lengths[:, None], ids, 0))
    links = rng.dirichlet(np.ones(5), (6, 4)).astype(np.float32) * (sides[0] > 0)[:, None, :]
    seq2seq, optimizer = Seq2Seq(model, 9, 9), make_optimizer(train, 9)
    state = devices.replicate(jax.jit(lambda: create_state(seq2seq, optimizer, 0))())
    step: Any = devices.on_devices(make_train_step(seq2seq, optimizer, train), outputs=None)
    sums = None
    for _ in range(steps):
        state, sums = step(state, devices.shard(Batch(sides[0], sides[1], links)))
    return jax.device_get(state.params), jax.device_get(sums)


@pytest.mark.parametrize(
    ("parts", "normalize"),
    [
        (2, "sentences"),
        (3, "tokens"),
        *(
            pytest.param(parts, normalize, marks=pytest.mark.slow)
            for parts in (2, 3, 6)
            for normalize in ("tokens", "sentences")
            if (parts, normalize) not in ((2, "sentences"), (3, "tokens"))
        ),
    ],
)
def test_parts_of_a_batch_add_up_to_the_whole(parts, normalize):
    params, sums = trained(1, normalize)
    other_params, other_sums = trained(parts, normalize)
    assert other_sums.tokens == sums.tokens
    np.testing.assert_allclose(*map(jax.tree.leaves, (other_sums, sums)), rtol=1e-5)
    for whole, added in zip(jax.tree.leaves(params), jax.tree.leaves(other_params), strict=True):
        np.testing.assert_allclose(added, whole, rtol=1e-5, atol=1e-6)


def test_by_sentences_the_gradient_is_longer_by_the_mean_target_length():
    start, _ = trained(1, steps=0)
    by_tokens, sums = trained(1, "tokens", steps=1)
    by_sentences, other_sums = trained(1, "sentences", steps=1)
    mean_length = float(sums.tokens) / 5  # the sixth row is filler and no sentence
    assert float(other_sums.loss) == pytest.approx(float(sums.loss))
    longer = float(other_sums.gradient_norm) / float(sums.gradient_norm)
    assert longer == pytest.approx(mean_length, rel=1e-5)
    for before, one, other in zip(
        *map(jax.tree.leaves, (start, by_tokens, by_sentences)), strict=True
    ):
        np.testing.assert_allclose(
            other - before, mean_length * (one - before), rtol=1e-4, atol=1e-6
        )
