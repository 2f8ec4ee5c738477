"""RNNencdec-50, the paper's baseline without attention: one vector for the whole sentence.

    python launch.py --config=experiments/rnnencdec_50.py

Hardware: one GPU of 16 GB or more; the paper's was a Quadro K-6000.
Time: not yet measured. The paper: 108 hours for 600,000 updates, 4.5 epochs (Table 2).
Expect: not yet measured. The paper, newstest2014, tokenised BLEU by beam search: 17.82; 26.71 on
  sentences without unknown words (Table 1).

Section 4.2 of Bahdanau et al. 2014 takes the model of Cho et al. 2014 (arXiv 1406.1078): a forward
encoder of 1000 units, whose last state is the context of every step and, through tanh(W_s h), the
decoder's first state. Two differences remain. Cho et al. pass the context through a tanh layer of
its own. And their readout takes the new state of the step, while this one takes the previous state,
as RNNsearch's does. Data and training are those of rnnsearch_50.py.
"""

from bahdanau_jax.config import Config
from experiments import rnnsearch_50


def get_config() -> Config:
    config = rnnsearch_50.get_config()
    model = config.model
    model.encoder.bidirectional = False
    model.attention.score = "fixed"
    model.initial_state = "final"
    config.train.steps = 600_000
    return config
