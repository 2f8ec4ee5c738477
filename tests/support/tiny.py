"""A corpus and a configuration so small that training takes seconds."""

import random
from pathlib import Path

from bahdanau_jax.config import Config

MAX_LENGTH = 6
PAIRS = 90  # training pairs that are read
LONGER = 2  # further ones that are longer than MAX_LENGTH
EMPTY = 1  # and without a target
DEV, TEST = 9, 11


def write_corpus(directory: Path, seed: int = 0) -> str:
    """Writes words spelt in capitals, as `fed` to `F E D`; returns the `data.source` to read it.

    A development word and a test word are longer than MAX_LENGTH; one has two references.
    """
    chance = random.Random(seed)

    def pair(length: int) -> str:
        word = "".join(chance.choices("abcdef", k=length))
        return f"{word}\t{' '.join(word.upper())}"

    def pairs(count: int) -> list[str]:
        return [pair(chance.randint(1, MAX_LENGTH)) for _ in range(count)]

    directory.mkdir(parents=True, exist_ok=True)
    extra = [pair(MAX_LENGTH + 1), pair(MAX_LENGTH + 3), "abc\t"]
    dev = [*pairs(DEV - 2), pair(MAX_LENGTH + 4), f"{pair(3)}\tA"]
    test = [*pairs(TEST - 1), pair(MAX_LENGTH + 4)]
    for name, lines in (("train", pairs(PAIRS) + extra), ("dev", dev), ("test", test)):
        (directory / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"tsv:{directory}"


def config(source: str) -> Config:
    """Returns a configuration that has every part of training in it."""
    made = Config()
    data, model, train = made.data, made.model, made.train
    data.source, data.max_length, data.shapes = source, MAX_LENGTH, 2
    data.vocabulary.kind, data.vocabulary.target_kind = "characters", "symbols"
    data.vocabulary.size = 0
    model.embedding = model.encoder.units = model.decoder.units = 16
    model.attention.units = model.readout_units = 16
    train.steps, train.batch_size, train.log_every = 60, 16, 7
    train.eval_every, train.checkpoint_every = 20, 9
    train.learning_rate, train.schedule, train.warmup_steps = 2e-2, "cosine", 5
    train.label_smoothing, train.metric = 0.05, "per"
    train.dropout.embedding = train.dropout.annotations = train.dropout.readout = 0.05
    made.evaluation.metrics, made.evaluation.samples = "error_rate", 4
    made.decode.batch_size = 32
    return made
