"""RNNencdec-50, the paper's baseline without attention: one vector for the whole sentence.

    python launch.py --config=experiments/rnnencdec_50.py

Hardware: one GPU of 16 GB or more; the paper's was a Quadro K-6000.
Time: not yet measured. The paper: 108 hours for 600,000 updates, 4.5 epochs (Table 2).
Expect: not yet measured. The paper, newstest2014, tokenised BLEU by beam search: 17.82; 26.71 on
  sentences without unknown words (Table 1).

Section 4.2 of Bahdanau et al. 2014 takes the model of Cho et al. 2014 (arXiv 1406.1078). Data and
training are those of rnnsearch_50.py. The files are those of
https://github.com/lisa-groundhog/GroundHog, in experiments/nmt; its README has the command
`--proto=prototype_encdec_state "seqlen=50,sort_k_batches=20"`.

original says                        field                               where
-----------------------------------  ----------------------------------  ------------------------
a forward encoder of 1000 units      model.encoder.bidirectional = false state.py:51; 4.2
its last state is every context      model.attention.score = fixed       encdec.py:781; Cho, 2.2
tanh of its projection is s_0        model.initial_state = final         encdec.py:852
the readout's state has read         model.attention.query = current     encdec.py:1123; Cho, 2.2
y_{i-1} and the context              model.feeding = context             encdec.py:1049
maxout, dim 1000, embeddings 620     as rnnsearch_50.py                  state.py:88, 255
seqlen 50, sort_k_batches 20         data.max_length, data.pool          README.md:56
beam                                 decode.beam_size = 10               as rnnsearch_50.py

What still differs:
- Cho et al.'s text passes the context through a tanh layer of its own; their code doesn't.
- The first readout of the code sees s_0 itself. Here a state has read the begin mark first, and as
  yet no context.
- The output matrix, biases and vocabulary, as groundhog_rnnsearch.py says; the text, as
  rnnsearch_50.py says.
"""

from bahdanau_jax.config import Config
from experiments import rnnsearch_50


def get_config() -> Config:
    config = rnnsearch_50.get_config()
    model = config.model
    model.encoder.bidirectional = False
    model.attention.score = "fixed"
    model.attention.query = "current"
    model.feeding = "context"
    model.initial_state = "final"
    config.train.steps = 600_000
    return config
