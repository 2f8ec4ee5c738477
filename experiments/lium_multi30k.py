"""Multi30k English to German by LIUM's conditional GRU of the WMT17 multimodal task, text only.

    python launch.py --config=experiments/lium_multi30k.py

The data are those of multi30k.py. The configuration is config/monomodal-en-de.conf (`conf`) of
https://github.com/lium-lst/wmt17-mmt, and the code https://github.com/lium-lst/nmtpy (Theano, not
its successor nmtpytorch).

Hardware: one GPU, or 2 CPU cores.
Time: not yet measured.
Expect: not yet measured. Published (README of wmt17-mmt), one run, test_2016_flickr: 39.00 BLEU, on
  text tokenised by Moses and lower-cased. Here the raw text is lower-cased and not tokenised, so
  figures from here don't compare exactly with it.

original says                        field                               where
-----------------------------------  ----------------------------------  ------------------------
lower-cased, 10,000 joint merges     data.lowercase, .vocabulary         README.md:39, 44
embeddings 128, units 256            model.embedding, .units             conf:22
GRU, reset after the product         model.gru_reset = after             nmtpy/layers.py:118
c_i from s'_i, the conditional GRU   model.attention.query = intermediate nmtpy/layers.py:299
tanh over 512 with a bias            model.attention.units, .bias        nmtpy/layers.py:321
tanh(W_s mean of h)                  model.initial_state = mean          attention.py:419
tanh of state, word and context      model.readout = tanh                attention.py:449
of the embedding's size              model.readout_units = 128           attention.py:362
untied                               model.tie_embeddings = none         conf:14
layers normalised in the encoder     model.layer_norm = encoder          attention.py:356
dropout 0.3, 0.5, 0.5                train.dropout                       conf:18
Adam at 4e-4, 32 sentences           train.learning_rate, .batch_size    conf:26
the mean over sentences of sums      train.normalize = sentences         basemodel.py:168
1e-5 times the sum of squares        train.weight_decay = 2e-5           conf:8, basemodel.py:141
norm up to 5                         train.clip_norm = 5                 conf:9
every 1000, patience 10, 100 epochs  train.eval_every, .patience         conf:5
beam of 12, by mean log-probability  decode.beam_size = 12               bin/nmt-translate:67, 371
up to 3 times the source             decode.max_length_ratio = 3         attention.py:169

attention.py and basemodel.py lie in nmtpy/models.

Probabilities, weights and gradients are those of nmtpy's recurrence to 1e-5 where the two can be
given the same parameters (tests/model/test_nmtpy.py).

What still differs:
- Its layer normalisation has a bias of each term (layers.py:61), and here one of their sum, as well
  as one before it (layers.py:196) that is none here.
- Its energies have a bias (layers.py:442), which changes no weight.
- It drops no component of target embeddings (attention.py:429). Here both sides' are dropped.
- Its joint merges make two vocabularies. Here one vocabulary serves both sides.
- Its batches have targets of one length (conf:16). Here they share a padded shape.
- v_a is a matrix of one column there, which the decay reaches. It is a vector here.
- It stops by METEOR, then BLEU (conf:6). Here BLEU decides.
- Xavier's initialisation is for embeddings too (conf:25). The first word has an embedding of zeros
  before it, and s_0 a bias.
"""

from bahdanau_jax.config import Config
from experiments import multi30k


def get_config() -> Config:
    config = multi30k.get_config()
    data, model, train = config.data, config.model, config.train
    data.lowercase = True
    data.max_length = 80
    data.vocabulary.size = 10_000

    model.gru_reset = "after"
    model.embedding = 128
    model.encoder.units = 256
    model.decoder.units = 256
    model.attention.query = "intermediate"
    model.attention.units = 512
    model.attention.bias = True
    model.initial_state = "mean"
    model.readout = "tanh"
    model.readout_units = 128
    model.layer_norm = "encoder"

    train.epochs = 100
    train.batch_size = 32
    train.normalize = "sentences"
    train.weight_decay = 2e-5
    train.learning_rate = 4e-4
    train.schedule = "constant"
    train.warmup_steps = 0
    train.clip_norm = 5.0
    train.label_smoothing = 0.0
    train.dropout.embedding = 0.3
    train.dropout.annotations = 0.5
    train.dropout.readout = 0.5
    train.eval_every = 1000
    train.checkpoint_every = 1000
    train.patience = 10

    config.decode.beam_size = 12
    config.decode.max_length_ratio = 3.0
    return config
