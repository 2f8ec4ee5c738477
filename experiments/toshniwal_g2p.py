"""Grapheme to phoneme after Toshniwal and Livescu 2016, on the PRONALSYL-2007 split of CMUdict.

    python launch.py --config=experiments/toshniwal_g2p.py

The data are those of pronalsyl.py.

Hardware: one GPU.
Time: not yet measured.
Expect: not yet measured. Quoted for the paper (arXiv 1610.06540), global attention: PER 5.04, WER
  21.69; five models together 4.69 and 20.24.

Published: an encoder of three bidirectional LSTM layers of 512 units, an alignment model of 64
units, dropout 0.2, Adam at 1e-3, batches of 256, greedy decoding. The state of the same step
queries, the additive score has a bias, and the output reads the state beside the context.

This project's own choices: that the 512 units are those of each direction, one decoder layer, the
sizes of embedding and readout, where dropout acts, the schedule, and the number of epochs.
"""

from bahdanau_jax.config import Config
from experiments import pronalsyl


def get_config() -> Config:
    config = pronalsyl.get_config()
    model, train = config.model, config.train
    model.cell = "lstm"
    model.encoder.units = 512
    model.encoder.layers = 3
    model.decoder.units = 512
    model.attention.query = "current"
    model.attention.units = 64
    model.attention.bias = True
    model.initial_state = "final"
    model.readout = "attentional"
    model.readout_units = 512

    train.epochs = 20
    train.batch_size = 256
    train.learning_rate = 1e-3
    train.dropout.embedding = 0.2
    train.dropout.annotations = 0.2
    train.dropout.readout = 0.2
    train.eval_every = 430  # once an epoch, nearly
    train.checkpoint_every = 430
    return config
