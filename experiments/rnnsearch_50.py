"""RNNsearch-50 as the paper has it: Bahdanau, Cho and Bengio 2014, English to French.

    python launch.py --config=experiments/rnnsearch_50.py
    python launch.py --config=experiments/rnnsearch_50.py --mode=explain

The first command needs WMT14 prepared by TFDS, and says how to prepare it if it isn't. The second
needs no data. It says for each setting where in the paper it stands, and what a step costs.

Hardware: one GPU of 16 GB or more; the paper's was a Quadro K-6000.
Time: not yet measured. The paper: 111 hours for 288,000 updates, 2.2 epochs (Table 2).
Expect: not yet measured. The paper, newstest2014, tokenised BLEU by beam search: 26.75; 34.16 on
  sentences without unknown words; 28.45 and 36.15 after 667,000 updates (Table 1).

Here a query is the paper's s_{i-1}, which has read y_{i-2} with c_{i-1}. In the paper's code,
GroundHog, it has read y_{i-1}: that form is groundhog_rnnsearch.py, with the same training.

original says                        field                               where
-----------------------------------  ----------------------------------  ------------------------
30,000 words a side, and [UNK]       data.vocabulary.size = 30_004       4.1
sentences of up to 50 words          data.max_length = 50                4.2
1600 pairs sorted, cut into 20       data.pool = 20                      B.2; encdec.py:141
GRU, reset before the product        model.gru_reset = before            A.1.1
m = 620, n = 1000, n' = 1000         model.embedding, .units             A.2.3
maxout of l = 500 pairs              model.readout_units = 500           A.2.2, A.2.3
s_0 = tanh(W_s h_1, backward)        model.initial_state = backward      A.2.2
orthogonal; W_a, U_a 0.001; 0.01     model.initialization = paper        B.1
Adadelta, 0.95 and 1e-6, 80 pairs    train.optimizer = adadelta          B.2
norm of the gradient up to 1         train.clip_norm = 1                 B.2
beam of 10, length from half on      decode.beam_size, .min_length_ratio sample_server.py:75,
                                                                         sample.py:152

What still differs:
- The paper doesn't say how wide its beam was; 10 is what its demonstration begins with.
- It doesn't say what a batch's cost is divided by, and its code divides by nothing
  (cost_layers.py:1152). Here the cost is the mean over sentences (train.normalize). While the
  gradient of the mean has a norm above 1, clipping makes both the same.
- The paper took 348 million words of WMT14, chosen by Axelrod et al.'s method, and tokenised them
  by Moses. TFDS has the whole set and doesn't tokenise: words here keep their punctuation, and more
  of them are unknown. For figures that compare with the paper's, tokenise the text and name it by
  --config.data.source=text:DIR. wmt14_en_fr.py takes subwords instead.
"""

from bahdanau_jax.config import Config


def get_config() -> Config:
    config = Config()
    config.follows = "bahdanau_2014"
    data, model, train = config.data, config.model, config.train
    data.source = "tfds:wmt14_translate/fr-en"
    data.source_language = "en"
    data.target_language = "fr"
    data.max_length = 50
    data.pool = 20
    data.vocabulary.kind = "words"
    data.vocabulary.size = (
        30_004  # the 30,000 most frequent words, and padding, begin, end, unknown
    )

    model.cell = "gru"
    model.gru_reset = "before"
    model.embedding = 620
    model.encoder.units = 1000
    model.decoder.units = 1000
    model.attention.score = "additive"
    model.attention.query = "previous"
    model.attention.units = 1000
    model.initial_state = "backward"
    model.readout = "maxout"
    model.readout_units = 500
    model.initialization = "paper"

    train.steps = 288_000
    train.batch_size = 80
    train.normalize = "sentences"
    train.optimizer = "adadelta"
    train.learning_rate = 1.0
    train.schedule = "constant"
    train.clip_norm = 1.0
    train.eval_every = 10_000
    train.checkpoint_every = 2_000
    train.metric = "bleu"
    config.decode.beam_size = 10
    config.decode.min_length_ratio = 0.5
    return config
