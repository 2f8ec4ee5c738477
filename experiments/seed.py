"""The form that many tutorials teach: p(y_i) = softmax(W_o s_i), and PyTorch's GRU.

    python launch.py --config=experiments/seed.py

Hardware: 2 CPU cores.
Time: not yet measured.
Expect: not yet measured; cmudict.py is the same but for the readout, the query and the cell.

The additive score and the query s_{i-1} are Bahdanau et al.'s. Two things aren't. The output reads
the new state s_i alone, where the paper's deep output takes s_{i-1}, the word and the context. And
the reset gate acts after the recurrent product, as in cuDNN. Data, sizes and training are those
of cmudict.py.
"""

from bahdanau_jax.config import Config
from experiments import cmudict


def get_config() -> Config:
    config = cmudict.get_config()
    config.model.attention.query = "previous"
    config.model.gru_reset = "after"
    config.model.readout = "linear"
    return config
