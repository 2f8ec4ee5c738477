"""English to German on Multi30k's image captions: RNNsearch of a size for two cores.

    python launch.py --config=experiments/multi30k.py

The data are the raw text of task 1 of https://github.com/multi30k/dataset, for research and
education that isn't commercial. They are downloaded (1.3 MB) on first use. docs/data.md, "Raw
files", says how to do without a network.

Hardware: 2 CPU cores.
Time: 1 hour of processor time over both cores; not yet timed on an idle machine.
Expect: test_2016_flickr, greedy: BLEU 33.4, chrF 59.2, TER 52.8 (cased, sacreBLEU's 13a tokens, one
  seed; dev 34.3 BLEU). For comparison, test_2016_flickr: 39.00 BLEU by nmtpytorch, on lowercase
  tokenised text (see lium_multi30k.py).

The form of the model is the paper's (Bahdanau et al. 2014); its sizes, the subwords, dropout, label
smoothing and Adam are this project's, and not yet tuned.
"""

from bahdanau_jax.config import Config


def get_config() -> Config:
    config = Config()
    data, model, train = config.data, config.model, config.train
    data.source = "tfds:multi30k/en-de"
    data.source_language = "en"
    data.target_language = "de"
    data.max_length = 50
    data.vocabulary.kind = "bpe"
    data.vocabulary.size = 8000
    data.vocabulary.joint = True

    model.embedding = 256
    model.encoder.units = 256
    model.decoder.units = 512
    model.attention.units = 512
    model.readout_units = 256

    train.epochs = 12
    train.batch_size = 64
    train.learning_rate = 1e-3
    train.schedule = "cosine"
    train.warmup_steps = 200
    train.label_smoothing = 0.1
    train.dropout.embedding = 0.3
    train.dropout.annotations = 0.3
    train.dropout.readout = 0.3
    train.eval_every = 450  # once an epoch, nearly
    train.checkpoint_every = 450
    train.metric = "bleu"
    return config
