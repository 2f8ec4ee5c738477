"""Luong, Pham and Manning 2015: English to German, local attention with predicted centres.

    python launch.py --config=experiments/luong_2015.py

The files are those of https://github.com/lmthang/nmt.hybrid, in code, which has what the paper's
code, nmt.matlab, had.

Hardware: one GPU of 24 GB or more; the paper's was a Tesla K40.
Time: not yet measured. The paper: 7 to 10 days (section 4.1).
Expect: not yet measured. The paper, newstest2014: perplexity 5.9, tokenised BLEU 19.0 (Table 4);
  20.9 with unknown words replaced (Table 1).

original says                        field                               where
-----------------------------------  ----------------------------------  ------------------------
50,000 words a side, 50 a sentence   data.vocabulary.size, .max_length   4.1
100 batches read, sorted and cut     data.pool = 100                     trainLSTM.m:113, 672
4 LSTM layers of 1000                model.encoder, model.decoder        4.1; trainLSTM.m:425
general, window of 10 a side         model.attention.score, .half_width  3.1, 3.2
weights times a Gaussian, as is      model.attention.renormalize = false trainLSTM.m:102
the step's own state queries         model.attention.query = current     3
the source in reverse                model.reverse_source = true         4.1
each layer's last state and memory   model.initial_state = layers        3.3, Figure 4
h of the step before is fed          model.feeding = attentional         3.3; trainLSTM.m:436
U(-0.1, 0.1)                         model.initialization = uniform      4.1; trainLSTM.m:31
SGD at 1, 12 epochs                  train.optimizer = sgd               4.1
halved every epoch after 8           train.schedule = halving            4.1; trainLSTM.m:37
128 sentences                        train.batch_size = 128              4.1
the gradient over sentences          train.normalize = sentences         trainLSTM.m:325
norm up to 5                         train.clip_norm = 5                 4.1; trainLSTM.m:326
dropout 0.2 on every layer's input   train.dropout.embedding, .layers    layers/lstmUnitForward.m:14
beam of 12, ratios 0.5 and 1.5       decode.beam_size                    trainLSTM.m:74, 128

Without the window, probabilities, weights and gradients are those of nmt.hybrid's recurrence to
1e-5 (tests/model/test_nmt_hybrid.py).

What still differs:
- A window begins 10 words before floor(p) there (layers/attnLayerForward.m:16, buildSrcVecs.m), and
  here 10 before p, so that it has one word less. The source has no end mark there;
  here it has one, which counts in the S that p is a share of.
- The paper's cells have no biases, nor has its output layer (trainLSTM.m:427, 510).
- Its dropout acts on what is fed, too (layers/lstmUnitForward.m:33).
- The norm that it clips leaves out the embeddings' gradient, which is scaled alike
  (trainLSTM.m:324). Cells are clipped at 50, and their gradient at 1000 (trainLSTM.m:50).
- It sorts by the target's length, and shuffles the batches of a pool (trainLSTM.m:673, 707).
- Output may have ten tokens more than 1.5 times the source here.
- The text of TFDS isn't tokenised. rnnsearch_50.py says what that does to words.
"""

from bahdanau_jax.config import Config


def get_config() -> Config:
    config = Config()
    config.follows = "luong_2015"
    data, model, train = config.data, config.model, config.train
    data.source = "tfds:wmt14_translate/de-en"
    data.source_language = "en"
    data.target_language = "de"
    data.max_length = 50
    data.pool = 100
    data.vocabulary.kind = "words"
    data.vocabulary.size = 50_004  # 50,000 words, and padding, begin, end, unknown

    model.cell = "lstm"
    model.embedding = 1000
    model.encoder.units = 1000
    model.encoder.layers = 4
    model.encoder.bidirectional = False
    model.decoder.units = 1000
    model.decoder.layers = 4
    model.attention.score = "general"
    model.attention.query = "current"
    model.attention.window = "local_p"
    model.attention.half_width = 10
    model.attention.renormalize = False
    model.feeding = "attentional"
    model.initial_state = "layers"
    model.reverse_source = True
    model.readout = "attentional"
    model.readout_units = 1000
    model.initialization = "uniform"

    train.epochs = 12
    train.batch_size = 128
    train.normalize = "sentences"
    train.optimizer = "sgd"
    train.learning_rate = 1.0
    train.schedule = "halving"
    train.decay_start = 8.0
    train.clip_norm = 5.0
    train.dropout.embedding = 0.2
    train.dropout.layers = 0.2
    train.eval_every = 5_000
    train.checkpoint_every = 2_000

    config.decode.beam_size = 12
    config.decode.min_length_ratio = 0.5
    config.decode.max_length_ratio = 1.5
    return config
