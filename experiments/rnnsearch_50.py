"""RNNsearch-50 to the letter: Bahdanau, Cho and Bengio 2014, English to French.

    python launch.py --config=experiments/rnnsearch_50.py
    python launch.py --config=experiments/rnnsearch_50.py --mode=explain

The first command needs WMT14 prepared by TFDS, and says how to prepare it if it isn't. The second
needs no data. It says for each setting where in the paper it stands, and what a step costs.

Hardware: one GPU of 16 GB or more; the paper's was a Quadro K-6000.
Time: not yet measured. The paper: 111 hours for 288,000 updates, 2.2 epochs (Table 2).
Expect: not yet measured. The paper, newstest2014, tokenised BLEU by beam search: 26.75; 34.16 on
  sentences without unknown words; 28.45 and 36.15 after 667,000 updates (Table 1).

Model, sizes and initialisation: sections 3.1, 3.2 and 4.2, appendices A and B.1. Training: 4.2 and
B.2. What differs is the data. The paper took 348 million words of WMT14, chosen by Axelrod et al.'s
method, and tokenised them by Moses. TFDS has the whole set and doesn't tokenise: words here keep
their punctuation, and more of them are unknown. For figures that compare with the paper's, tokenise
the text and name it by --config.data.source=text:DIR. wmt14_en_fr.py takes subwords instead.
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
    train.optimizer = "adadelta"
    train.learning_rate = 1.0
    train.schedule = "constant"
    train.clip_norm = 1.0
    train.eval_every = 10_000
    train.checkpoint_every = 2_000
    train.metric = "bleu"
    return config
