"""Multi30k English to German in nmtpytorch's setting: a conditional GRU with additive attention.

    python launch.py --config=experiments/lium_multi30k.py

The data are those of multi30k.py.

Hardware: one GPU, or 2 CPU cores.
Time: not yet measured.
Expect: not yet measured. Published for nmtpytorch (LIUM), one run, test_2016_flickr: 39.00 BLEU, on
  text tokenised by Moses and lower-cased. Here the raw text is lower-cased and not tokenised, so
  figures from here don't compare exactly with it.

Published: embeddings of 128, 256 units, layer normalisation, dropout .3 (embeddings), .5
(annotations), .5 (output), Adam at 4e-4, norms clipped to 5, batches of 32, 10,000 joint byte-pair
pieces. From nmtpytorch's code and its example for this task (model NMT, multi30k-en-de-bpe10k):
the conditional GRU of dl4mt and Nematus, PyTorch's GRU, an alignment model as wide as an
annotation, tanh(W_s mean of h) as first state, an evaluation every 1,000 steps, patience 20.

What differs:
- nmtpytorch has a weight decay (L2) of 1e-5, which isn't offered here.
- Its output layer reads tanh of a projection of the state alone. The nearest here is the
  attentional readout, which reads the context too.
- The readout has the embedding's size, and the target embedding serves as output matrix.
  nmtpytorch can also share the source's embedding.
- The initialisation is this project's, not He et al.'s.
- Layer normalisation has its bias outside the statistics, and none of its own in each term.
"""

from bahdanau_jax.config import Config
from experiments import multi30k


def get_config() -> Config:
    config = multi30k.get_config()
    data, model, train = config.data, config.model, config.train
    data.lowercase = True
    data.max_length = 80
    data.vocabulary.size = 10_000

    model.gru_reset = "after"
    model.embedding = 128
    model.encoder.units = 256
    model.decoder.units = 256
    model.attention.query = "intermediate"
    model.attention.units = 512
    model.initial_state = "mean"
    model.readout = "attentional"
    model.readout_units = 128
    model.tie_embeddings = "output"
    model.layer_norm = "encoder"

    train.epochs = 100
    train.batch_size = 32
    train.learning_rate = 4e-4
    train.schedule = "constant"
    train.warmup_steps = 0
    train.clip_norm = 5.0
    train.label_smoothing = 0.0
    train.dropout.embedding = 0.3
    train.dropout.annotations = 0.5
    train.dropout.readout = 0.5
    train.eval_every = 1000
    train.checkpoint_every = 1000
    train.patience = 20
    return config
