"""Luong, Pham and Manning 2015: English to German, local attention with predicted centres.

    python launch.py --config=experiments/luong_2015.py

Hardware: one GPU of 24 GB or more; the paper's was a Tesla K40.
Time: not yet measured. The paper: 7 to 10 days (section 4.1).
Expect: not yet measured. The paper, newstest2014: perplexity 5.9, tokenised BLEU 19.0 (Table 4);
  20.9 with unknown words replaced (Table 1).

Section 4.1: vocabularies of the 50,000 most frequent words, sentences to 50 words, four LSTM layers
of 1000 units, embeddings of 1000, parameters from [-0.1, 0.1], SGD at rate 1, batches of 128,
gradients scaled to norm 5, dropout 0.2 and 12 epochs. Section 3: the step's own state queries, the
score is `general`, the window holds 10 words a side (3.2), and the attentional vector is fed to the
next step (3.3).

What the fields can't say, or say otherwise:
- After 8 of the 12 epochs the paper halves the rate at every epoch. Here it stays at 1, unless
  --config.train.schedule=linear is given.
- Here the rate and the clipping apply to the gradient of the mean loss over tokens. The paper
  doesn't say what its "normalized gradient" is divided by.
- The paper reads the source in reverse. It hands the last state of each encoder layer to the
  decoder layer of the same number. Here every decoder layer starts from tanh(W_s h), where h is
  the last state of the top encoder layer.
- In the paper dropout acts on the inputs of every LSTM layer, here on embeddings, annotations and
  readout.
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
    model.initial_state = "final"
    model.readout = "attentional"
    model.readout_units = 1000
    model.initialization = "uniform"

    train.epochs = 12
    train.batch_size = 128
    train.optimizer = "sgd"
    train.learning_rate = 1.0
    train.clip_norm = 5.0
    train.dropout.embedding = 0.2
    train.dropout.annotations = 0.2
    train.dropout.readout = 0.2
    train.eval_every = 5_000
    train.checkpoint_every = 2_000
    return config
