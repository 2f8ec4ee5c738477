"""The default experiment on the PRONALSYL-2007 split of CMUdict, which the literature reports on.

    python launch.py --config=experiments/pronalsyl.py

It reads ../shared/data/cmudict-pronalsyl, as seen from the directory in which the command is given;
for another place, --config.data.source=tsv:DIR.

Hardware: 2 CPU cores.
Time: 14.6 minutes beside other work; not yet measured on an idle machine.
Expect: test WER 28.8 %, PER 6.8 % (one seed, greedy; dev 29.5 % and 7.2 %).

For comparison, WER without stress: Phonetisaurus 24.4 %, an LSTM with attention of 2 x 512 24.2 %.
"""

from bahdanau_jax.config import Config
from experiments import cmudict


def get_config() -> Config:
    config = cmudict.get_config()
    config.data.source = "tsv:../shared/data/cmudict-pronalsyl"
    config.data.source_language = config.data.target_language = ""
    return config
