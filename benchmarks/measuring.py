"""What benchmarks share: what a step is measured on, turns, and the memory of this process."""

import ctypes
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from bahdanau_jax.config import Config
from bahdanau_jax.data.batching import Batch, Batcher
from bahdanau_jax.data.pipeline import Data, open_data
from bahdanau_jax.data.token_store import TokenStore
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.runtime.setup import cache_directory
from bahdanau_jax.terminal import say
from experiments import cmudict, multi30k, rnnsearch_50

NAMES = ("smallest", "small", "medium", "paper")

MIB = 2**20

P = TypeVar("P")


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
      name: smallest (the default experiment with layers of 8 units, to see that all runs), small
        (the default experiment), medium (Multi30k at its experiment's sizes) or paper
        (rnnsearch_50).
      source: medium: `data.source` in place of the experiment's; empty to keep that.
    """
    experiment = {"medium": multi30k, "paper": rnnsearch_50}.get(name, cmudict)
    config = experiment.get_config()
    # nn.GRU has no other form. Dropout and smoothing are left out: they are the same few
    # operations everywhere, and the peers draw them in different places.
    config.model.gru_reset = "after"
    dropout = config.train.dropout
    dropout.embedding = dropout.annotations = dropout.readout = 0.0
    config.train.label_smoothing = 0.0
    config.train.schedule, config.train.warmup_steps = "constant", 0
    config.train.optimizer, config.train.learning_rate = "adam", 1e-3
    if name == "smallest":
        shrink(config)
    if name == "medium" and source:
        config.data.source = source
    return config


def shrink(config: Config) -> None:
    """Gives every layer 8 units, and a batch 4 sentences."""
    model = config.model
    model.embedding = model.encoder.units = model.decoder.units = 8
    model.attention.units = model.readout_units = 8
    config.train.batch_size = 4


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
    """Returns a workload; the data of paper can't be had everywhere.

    So paper is a batch of random sentences of 50 words, and smallest one of 5.

    Args:
      name: as of `configuration`.
      source: as of `configuration`.
    """
    config = configuration(name, source)
    if name == "paper":
        return _random_sentences(config, config.data.vocabulary.size, 51)
    if name == "smallest":
        return _random_sentences(config, 20, 6)
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


def _random_sentences(config: Config, size: int, length: int) -> Workload:
    rows = config.train.batch_size
    ids = np.random.default_rng(0).integers(4, size, (2, rows, length)).astype(np.int32)
    return Workload(config, size, size, [Group(Batch(ids[0], ids[1]), 1, rows * length)], 1.0)


def take_turns(
    contenders: Mapping[str, Callable[[], P]], turns: int, tell: Callable[[int, str, P], object]
) -> dict[str, list[P]]:
    """Calls each contender so many times; every second turn goes through them backwards.

    Args:
      contenders: by name.
      turns: calls of each.
      tell: told of each call the turn, from 1, the name, and what came of it.

    Returns:
      What came of the calls of each, in their order.
    """
    made: dict[str, list[P]] = {name: [] for name in contenders}
    for turn in range(1, turns + 1):
        for name in list(contenders)[:: 1 if turn % 2 else -1]:
            result = contenders[name]()
            made[name].append(result)
            tell(turn, name, result)
    return made


def resident() -> int:
    """Returns the bytes that this process has in memory now."""
    return _status("VmRSS")


def peak_during(function: Callable[[], object]) -> int:
    """Returns the most bytes that the process had in memory at once while `function` ran.

    What was freed before is given back to the system first, where the C library can do that.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from here
    function()
    return _status("VmHWM")


def _status(field: str) -> int:
    status = Path("/proc/self/status").read_text()
    line = re.search(rf"{field}:\s*(\d+) kB", status)
    assert line is not None, f"no {field} in /proc/self/status"
    return int(line[1]) * 1024
