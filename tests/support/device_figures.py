"""Prints what training computes on the devices that there are, as JSON; a process of its own.

    python device_figures.py losses      20 steps of training
    python device_figures.py gradients   one step, and what it should have been

The number of devices must be set before JAX starts: JAX_NUM_CPU_DEVICES=4.
"""

import json
import sys

import jax
import jax.numpy as jnp
import numpy as np

from bahdanau_jax.config import Config
from bahdanau_jax.data.batching import Batch, Batcher
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.model.equations import token_nll
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.runtime import devices
from bahdanau_jax.special_ids import PAD
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import create_state, make_train_step

VOCABULARY, STEPS = 11, 20


def tiny_config() -> Config:
    """Returns a configuration with dropout at every place."""
    config = Config()
    model, train = config.model, config.train
    model.embedding = model.encoder.units = model.decoder.units = 8
    model.attention.units = model.readout_units = 8
    dropout = train.dropout
    dropout.embedding, dropout.annotations, dropout.readout = 0.2, 0.3, 0.4
    dropout.source_words = dropout.target_words = dropout.layers = dropout.states = 0.1
    model.encoder.layers = model.decoder.layers = 2
    train.label_smoothing, train.clip_norm, train.learning_rate = 0.1, 0.5, 3e-2
    train.coverage = 0.3
    return config


def ragged_pairs() -> TokenStore:
    """Returns pairs of many lengths, 23 of them, so that no batch size below divides them."""
    chance = np.random.default_rng(0)

    def sentence() -> list[int]:
        return chance.integers(4, VOCABULARY, chance.integers(1, 6)).tolist()

    return TokenStore.from_pairs([(sentence(), sentence()) for _ in range(23)])


def losses() -> dict:
    """Trains on batches of 6 rows, which four devices fill up to 8."""
    config = tiny_config()
    batcher = Batcher(
        ragged_pairs(), seed=1, batch_size=6, max_length=5, shapes=1, multiple=jax.device_count()
    )
    model = Seq2Seq(config.model, VOCABULARY, VOCABULARY)
    optimizer = make_optimizer(config.train, STEPS)
    state = jax.jit(lambda: create_state(model, optimizer, 3), out_shardings=devices.replicated())()
    step = devices.on_devices(
        make_train_step(model, optimizer, config.train), outputs=None, donate=True
    )
    figures, rows, real_rows = [], [], []
    for number in range(STEPS):
        batch = batcher.batch(number)
        rows.append(len(batch.source))
        real_rows.append(int((batch.source != PAD).any(axis=1).sum()))
        state, sums = step(state, devices.shard(batch))
        coverage = sums.of_alignments["coverage"]
        figures.append([float(x) for x in (sums.loss / sums.tokens, *sums[1:5], coverage)])
    return {
        "devices": jax.device_count(),
        "rows": rows,
        "real_rows": real_rows,
        "figures": figures,
        "params": flat(state.params),
    }


def gradients() -> dict:
    """Takes one step of SGD with rate 1: the parameters' change is the gradient."""
    config = tiny_config()
    config.train.optimizer, config.train.learning_rate = "sgd", 1.0
    config.train.clip_norm = config.train.label_smoothing = config.train.coverage = 0.0
    dropout = config.train.dropout
    for place in vars(dropout):
        setattr(dropout, place, 0.0)
    model = Seq2Seq(config.model, VOCABULARY, VOCABULARY)
    optimizer = make_optimizer(config.train, 1)
    # The devices' rows have 10, 2, 3 and no target tokens.
    lengths, width = [(5, 5), (2, 5), (5, 1), (1, 1), (3, 2), (0, 0), (0, 0), (0, 0)], 5
    chance = np.random.default_rng(0)
    tokens = chance.integers(4, VOCABULARY, (2, len(lengths), width))
    beyond = [[np.arange(width) >= pair[side] for pair in lengths] for side in (0, 1)]
    source, target = np.where(beyond, PAD, tokens).astype(np.int32)
    state = jax.jit(lambda: create_state(model, optimizer, 0), out_shardings=devices.replicated())()
    step = devices.on_devices(make_train_step(model, optimizer, config.train), outputs=None)
    new, sums = step(state, devices.shard(Batch(source, target)))

    def mean_nll(params, source, target):
        logits, _ = model.apply({"params": params}, source, target)
        real = target != PAD
        return jnp.sum(token_nll(logits, target), where=real) / jnp.maximum(real.sum(), 1)

    gradient = jax.jit(jax.grad(mean_nll))
    params = jax.device_get(state.params)
    # Of one device's rows: the others are blanked, so that one shape is compiled.
    rows = [np.arange(8)[:, None] // 2 == device for device in range(4)]
    shards = [gradient(params, *(np.where(d, x, PAD) for x in (source, target))) for d in rows]
    return {
        "devices": jax.device_count(),
        "tokens": float(sums.tokens),
        "norm": float(sums.gradient_norm),
        "taken": flat(jax.tree.map(lambda a, b: a - b, state.params, new.params)),
        "of_all_tokens": flat(gradient(params, source, target)),
        "mean_of_means": flat(jax.tree.map(lambda *g: sum(g) / len(g), *shards)),
    }


def flat(tree) -> list[float]:
    """Returns all numbers of a tree of arrays."""
    return np.concatenate([np.ravel(x) for x in jax.tree.leaves(jax.device_get(tree))]).tolist()


if __name__ == "__main__":
    print(json.dumps({"losses": losses, "gradients": gradients}[sys.argv[1]]()))
