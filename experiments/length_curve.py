"""Attention against one vector for the sentence, by length: Bahdanau et al. 2014, Figure 2.

    python launch.py --config=experiments/length_curve.py
    python launch.py --config=experiments/length_curve.py --sweep=@scores --workdir=runs/length
    python launch.py --mode=compare --workdir=runs/length

The first command trains one cell alone, with additive attention. The report of the third draws BLEU
by source length. The data are those of multi30k.py, English to German.

--config=experiments/length_curve.py:reverse takes the made-up task of reverse.py instead.

Hardware: 2 CPU cores.
Time: 7 minutes for both cells with --config.train.epochs=3 --parallel=2, beside other work; the six
  epochs of this file are not yet measured. With :reverse, both runs and a picture took 185 seconds.
Expect: with three epochs, greedy, one seed, test BLEU 11.6 (additive) and 9.5 (fixed), far from
  trained out. With :reverse, one seed, exact match on the test split 99.95 % (additive) and 14.7 %
  (fixed); fixed has none right from 16 letters on.

The captions are short (12 words on average), so the curve has few long sentences to show.
"""

from bahdanau_jax.config import Config
from experiments import multi30k, reverse

SWEEPS = {"scores": {"model.attention.score": ["additive", "fixed"]}}


def get_config(task: str = "multi30k") -> Config:
    if task == "reverse":
        return reverse.get_config()
    config = multi30k.get_config()
    config.model.embedding = 128
    config.model.encoder.units = 128
    config.model.decoder.units = 256
    config.model.attention.units = 256
    config.model.readout_units = 128
    config.train.epochs = 6
    return config
