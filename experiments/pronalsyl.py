"""The paper's form on the PRONALSYL-2007 split of CMUdict, which the literature reports on.

    python launch.py --config=experiments/pronalsyl.py

The commands of docs/data.md, "The PRONALSYL-2007 split", get the data from
https://github.com/AdolfVonKleist/Phonetisaurus and put them into data/cmudict-pronalsyl. The
command above looks for them there, as seen from the directory in which it is given; for another
directory add --config.data.source=tsv:DIR.

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
    config.data.source = "tsv:data/cmudict-pronalsyl"
    config.data.source_language = config.data.target_language = ""
    config.model.attention.query = "previous"
    return config
