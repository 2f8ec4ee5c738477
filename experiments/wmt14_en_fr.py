"""English to French on WMT14: the paper's model and training, on subwords in place of words.

    python launch.py --config=experiments/wmt14_en_fr.py

TFDS downloads and prepares the data with TensorFlow, once; where it isn't prepared, the command
ends with the two commands that do it.

Hardware: one GPU of 16 GB or more.
Time: not yet measured.
Expect: not yet measured.

Everything is rnnsearch_50.py's but the vocabulary: 32,000 byte-pair pieces for both languages
together (Sennrich et al. 2016), which need no tokeniser and leave no word unknown, and sentences
to 60 pieces, which hold about as many as the paper's 50 words.
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
