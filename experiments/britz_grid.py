r"""Additive and multiplicative scores at 128 to 1,024 units, after Britz et al. 2017, on Multi30k.

    python launch.py --config=experiments/britz_grid.py
    python launch.py --config=experiments/britz_grid.py --sweep=@scores --sweep=@units \
        --sweep=seed=0,1,2 --workdir=runs/britz
    python launch.py --mode=compare --workdir=runs/britz

The first command trains one cell alone: additive, 512 units. The data are those of
multi30k.py.

Hardware: 2 CPU cores.
Time: 66 minutes for ten cells with --config.train.epochs=3 --parallel=2, one seed, beside other
  work. Not yet run: the six epochs of this file, the other seeds, and projected with the scale sqrt
  at 256 and 512 units.
Expect: BLEU on test_2016_flickr with three epochs, greedy, at 128, 256, 512 and 1,024 units:
  additive 17.5, 17.7, 17.9 and 18.1; projected 11.4, 10.6, 11.1 and 10.0; projected with the scale
  sqrt 14.9 at 128 and 14.7 at 1,024. Britz et al. have on newstest2013 (WMT15, English to German)
  22.23, 22.33, 22.47 and 22.10 with additive, 22.03, 22.33, 21.78 and 18.22 with multiplicative.

Their multiplicative score is `projected` here, (W_a q)ᵀ (U_a h). They don't scale it, and it falls
apart at 1,024 units. The grid asks whether the scale 1/√A is all that it lacks. The paper: "Massive
Exploration of Neural Machine Translation Architectures", section 4.5.
"""

from bahdanau_jax.config import Config
from experiments import multi30k

SWEEPS = {
    "scores": [
        {"model.attention.score": "additive", "model.attention.scale": "none"},
        {"model.attention.score": "projected", "model.attention.scale": "none"},
        {"model.attention.score": "projected", "model.attention.scale": "sqrt"},
    ],
    "units": {"model.attention.units": [128, 256, 512, 1024]},
}


def get_config() -> Config:
    config = multi30k.get_config()
    config.model.encoder.units = 128
    config.model.decoder.units = 256
    config.model.embedding = 128
    config.model.attention.units = 512
    config.train.epochs = 6
    return config
