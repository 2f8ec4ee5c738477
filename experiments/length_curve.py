"""With attention and with one vector for the sentence, by length: Bahdanau et al. 2014, Figure 2.

    python launch.py --config=experiments/length_curve.py
    python launch.py --config=experiments/length_curve.py --sweep=@scores --workdir=runs/length
    python launch.py --mode=compare --workdir=runs/length

On Multi30k, English to German, as in multi30k.py; with the captions elsewhere, add
--config.data.source=text:DIR. The synthetic task is --config=experiments/length_curve.py:reverse.
The first command trains one cell alone. The report of the third draws BLEU by source length.

Hardware: 2 CPU cores.
Time: 7 minutes for both cells with --config.train.epochs=3 --parallel=2, beside other work; the six
  epochs of this file are not yet measured.
Expect: with three epochs, greedy, one seed, test BLEU 11.6 (additive) and 9.5 (fixed), far from
  trained out. On the synthetic task see benchmarks/length_curve.py.

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
