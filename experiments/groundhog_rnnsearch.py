"""RNNsearch-50 as the paper's code has it: GroundHog's `prototype_search_state`.

    python launch.py --config=experiments/groundhog_rnnsearch.py

The files are those of https://github.com/lisa-groundhog/GroundHog, in experiments/nmt unless said
otherwise. Data and training are those of rnnsearch_50.py, whose header has their sources.

Hardware: one GPU of 16 GB or more.
Time: not yet measured.
Expect: not yet measured. The paper's figures, which this code made: see rnnsearch_50.py.

The code computes state h_t from y_t and c_t, and then shifts: the readout of word i, and the
attention of c_i, see a state that has read y_{i-1} together with c_{i-1}. Taken to the letter, the
paper's equations let both see a state that has read only y_{i-2}: that form is rnnsearch_50.py.

original says                        field                               where
-----------------------------------  ----------------------------------  ------------------------
the state that queries has read      model.attention.query = current     encdec.py:365, 1123
y_{i-1} and c_{i-1}                  model.feeding = context             encdec.py:391
maxout of 2, dim 1000                model.readout_units = 500           state.py:68, 88
embeddings of 620                    model.embedding = 620               state.py:256
last backward state, tanh            model.initial_state = backward      encdec.py:1064
sample_weights_orth, 0.01            model.initialization = paper        state.py:98
A, B by 0.001; D zero                the same                            encdec.py:269
bs 80, sort_k_batches 20             train.batch_size, data.pool         state.py:254, 277
adarho 0.95, adaeps 1e-6             train.optimizer = adadelta          state.py:145
cutoff 1                             train.clip_norm = 1                 state.py:131

What still differs:
- The first query is s_0 itself in the code. Here a state has read the begin mark and an empty
  context first. The code's first word has no word before it, here it has the begin mark. The code's
  form is one value of the parameters: a begin mark that keeps the update gate shut. With it, this
  preset has the code's probabilities and gradients to 1e-5 (tests/model/test_groundhog.py).
- The code's cost is the sum over a batch's words (groundhog/layers/cost_layers.py:1152, as the
  readout has two axes). Here it's the mean over sentences of such sums (train.normalize). While
  the gradient of the mean has a norm above 1, clipping makes both the same.
- The code's output matrix is a product of two, 500 x 620 and 620 x 30,001 (state.py:256 is its rank
  too; cost_layers.py:155). The paper has one matrix, and so has this.
- The code has a bias of each embedding and of s_0's projection, which are none here; and no bias of
  the two gates, which have one here (encdec.py:569, 597, 852).
- The code has 30,001 entries a side: no padding, and no begin mark. Data and tokenisation differ as
  rnnsearch_50.py says.
"""

from bahdanau_jax.config import Config
from experiments import rnnsearch_50


def get_config() -> Config:
    config = rnnsearch_50.get_config()
    config.model.attention.query = "current"
    config.model.feeding = "context"
    return config
