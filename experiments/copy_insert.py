"""Letters copied, vowels marked, silent letters left out: a made-up task whose alignment is known.

    python launch.py --config=experiments/copy_insert.py

Hardware: 2 CPU cores.
Time: not yet measured on an idle machine.
Expect: not yet measured.

Everything but the data and the number of padded shapes is reverse.py's.
"""

from bahdanau_jax.config import Config
from experiments import reverse


def get_config() -> Config:
    config = reverse.get_config()
    config.data.source = "tfds:copy_insert"
    config.data.shapes = 8  # vowels and silent letters make more lengths
    return config
