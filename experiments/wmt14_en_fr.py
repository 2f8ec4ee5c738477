"""English to French on WMT14: the paper's model and training, on subwords in place of words.

    python launch.py --config=experiments/wmt14_en_fr.py

TFDS downloads and prepares the data with TensorFlow, once; where it isn't prepared, the command
ends with the two commands that do it.

Hardware: one GPU of 16 GB or more.
Time: not yet measured.
Expect: not yet measured.

Only the vocabulary and the length differ from rnnsearch_50.py. The vocabulary has 32,000 byte-pair
pieces for both languages together (Sennrich et al. 2016). They need no tokeniser, and leave no word
unknown. Sentences have at most 60 pieces, which hold about as much as the paper's 50 words.
"""

from bahdanau_jax.config import Config
from experiments import rnnsearch_50


def get_config() -> Config:
    config = rnnsearch_50.get_config()
    data = config.data
    data.max_length = 60
    data.vocabulary.kind = "bpe"
    data.vocabulary.size = 32_000
    data.vocabulary.joint = True
    return config
