"""The default experiment on the PRONALSYL-2007 split of CMUdict, which the literature reports on.

python launch.py --config=experiments/pronalsyl.py
"""

from bahdanau_jax.config import Config
from experiments import cmudict


def get_config() -> Config:
    config = cmudict.get_config()
    config.data.source = "tsv:../shared/data/cmudict-pronalsyl"
    config.data.source_language = config.data.target_language = ""
    return config
