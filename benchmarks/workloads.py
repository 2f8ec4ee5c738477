"""What the training step is measured on: a configuration, and the batches of an epoch."""

from typing import NamedTuple

import numpy as np

from bahdanau_jax.config import Config
from bahdanau_jax.data.batching import Batch, Batcher
from bahdanau_jax.data.pipeline import Data, cache_directory, open_data
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.terminal import say
from experiments import cmudict, multi30k, rnnsearch_50

NAMES = ("small", "medium", "paper")


class Group(NamedTuple):
    """The batches of one padded shape."""

    batch: Batch  # one of them
    count: int  # how many an epoch has
    real: int  # real target tokens in all of them


class Workload(NamedTuple):
    """Sizes, and an epoch."""

    config: Config
    source_size: int
    target_size: int
    groups: list[Group]  # the largest shape first
    real_share: float  # of the padded positions of both sides


class Epoch(NamedTuple):
    """A corpus, and the batches of an epoch of it."""

    data: Data
    store: TokenStore
    batcher: Batcher


def configuration(name: str, source: str) -> Config:
    """Returns the configuration of a workload.

    Args:
      name: small (the default experiment), medium (Multi30k at its experiment's sizes) or paper
        (rnnsearch_50).
      source: medium: `data.source` in place of the experiment's; empty to keep that.
    """
    config = {"small": cmudict, "medium": multi30k, "paper": rnnsearch_50}[name].get_config()
    # nn.GRU has no other form. Dropout and smoothing are left out: they are the same few
    # operations everywhere, and the peers draw them in different places.
    config.model.gru_reset = "after"
    dropout = config.train.dropout
    dropout.embedding = dropout.annotations = dropout.readout = 0.0
    config.train.label_smoothing = 0.0
    config.train.schedule, config.train.warmup_steps = "constant", 0
    config.train.optimizer, config.train.learning_rate = "adam", 1e-3
    if name == "medium" and source:
        config.data.source = source
    return config


def open_epoch(config: Config, name: str) -> Epoch:
    """Opens the corpus of `configuration(name, ...)`; keeps vocabularies and ids for next time."""
    directory = cache_directory() / "benchmarks" / name
    data = open_data(config.data, Vocabularies.load_saved(directory), say)
    data.vocabularies.save(directory)
    store = data.training_store(say)
    batcher = Batcher(
        store,
        seed=0,
        batch_size=config.train.batch_size,
        max_length=config.data.max_length,
        shapes=config.data.shapes,
        pool=config.data.pool,
    )
    return Epoch(data, store, batcher)


def open_workload(name: str, source: str) -> Workload:
    """Returns a workload; paper is random sentences of 50 words: its data can't be had everywhere.

    Args:
      name: as of `configuration`.
      source: as of `configuration`.
    """
    config = configuration(name, source)
    if name == "paper":
        return _random_sentences(config)
    data, store, batcher = open_epoch(config, name)
    members: dict[tuple, list[int]] = {}
    for number in range(batcher.batches_per_epoch):
        members.setdefault(batcher.shape(number), []).append(number)
    groups = [
        Group(
            batcher.batch(numbers[0]),
            len(numbers),
            sum(int(store.target_lengths[batcher.indices(k)].sum()) for k in numbers),
        )
        for _, numbers in sorted(members.items(), key=lambda item: -np.prod(item[0]))
    ]
    vocabularies = data.vocabularies
    share = 1 - batcher.padding_share
    return Workload(config, vocabularies.source.size, vocabularies.target.size, groups, share)


def _random_sentences(config: Config) -> Workload:
    size, rows, length = config.data.vocabulary.size, config.train.batch_size, 51
    ids = np.random.default_rng(0).integers(4, size, (2, rows, length)).astype(np.int32)
    return Workload(config, size, size, [Group(Batch(ids[0], ids[1]), 1, rows * length)], 1.0)
