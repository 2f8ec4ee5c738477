"""The paper's form on the PRONALSYL-2007 split of CMUdict, which the literature reports on.

    python launch.py --config=experiments/pronalsyl.py

The data are downloaded (3 MB) on first use, from https://github.com/AdolfVonKleist/Phonetisaurus.
docs/data.md, "Raw files", says how to do without a network.

Hardware: 2 CPU cores.
Time: 14.6 minutes beside other work; not yet measured on an idle machine.
Expect: test WER 28.8 %, PER 6.8 % (one seed, greedy; dev 29.5 % and 7.2 %).

Sizes and training are those of cmudict.py; the query is the paper's, s_{i-1}.

For comparison, WER without stress: Phonetisaurus 24.4 %, an LSTM with attention of 2 x 512 24.2 %.
"""

from bahdanau_jax.config import Config
from experiments import cmudict


def get_config() -> Config:
    config = cmudict.get_config()
    config.data.source = "tfds:pronalsyl"
    config.model.attention.query = "previous"
    return config
