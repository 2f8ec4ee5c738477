"""Portuguese to English on TED talks (TFDS ted_hrlr_translate), 51,785 training pairs.

    python launch.py --config=experiments/ted_hrlr.py

TFDS downloads and prepares the data with TensorFlow, once; where it isn't prepared, the command
ends with the two commands that do it.

Hardware: one GPU, or 2 CPU cores.
Time: not yet measured.
Expect: not yet measured.

The model is that of multi30k.py. Sentences may be longer here (80 pieces), and there are more of
them.
"""

from bahdanau_jax.config import Config
from experiments import multi30k


def get_config() -> Config:
    config = multi30k.get_config()
    data, train = config.data, config.train
    data.source = "tfds:ted_hrlr_translate/pt_to_en"
    data.source_language = "pt"
    data.target_language = "en"
    data.max_length = 80
    data.vocabulary.joint = False
    train.eval_every = 800  # once an epoch, nearly
    train.checkpoint_every = 800
    return config
