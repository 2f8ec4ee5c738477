r"""Additive and multiplicative scores at 128 to 1,024 units, after Britz et al. 2017, on Multi30k.

    python launch.py --config=experiments/britz_grid.py
    python launch.py --config=experiments/britz_grid.py --sweep=@scores --sweep=@units \
        --sweep=seed=0,1,2 --workdir=runs/britz
    python launch.py --mode=compare --workdir=runs/britz

The first command trains one cell alone: additive, 512 units. The data are those of multi30k.py.
The files are those of https://github.com/google/seq2seq: the decoder lies in seq2seq/decoders, the
models in seq2seq/models, nmt_large.yml in example_configs.

Hardware: 2 CPU cores; one GPU.
Time: not yet measured.
Expect: not yet measured in this form; docs/results.md has ten cells of an earlier one. Britz et al.
  have on newstest2013 (WMT15, English to German), at 128, 256, 512 and 1,024 units, 22.23, 22.33,
  22.47 and 22.10 with additive, 22.03, 22.33, 21.78 and 18.22 with multiplicative.

Their multiplicative score is `projected` here, (W_a q)ᵀ (U_a h). They don't scale it, and it falls
apart at 1,024 units. The grid asks whether the scale 1/√A is all that it lacks. The paper: "Massive
Exploration of Neural Machine Translation Architectures", section 4.5.

original says                        field                               where
-----------------------------------  ----------------------------------  ------------------------
LSTM                                 model.cell = lstm                   nmt_large.yml
the step's own output queries        model.attention.query = current     attention_decoder.py:117
the context enters the next step     model.feeding = context             attention_decoder.py:156
projections with biases              model.attention.bias                attention.py:100
forget gates begin with a bias of 1  model.forget_bias = 1               LSTMCell
tanh of state and context            model.readout = tanh                attention_decoder.py:128
as wide as the state                 model.readout_units                 attention_decoder.py:130
no state from the encoder            model.initial_state = zero          nmt_large.yml
dropout 0.2 on a layer's input       train.dropout.embedding = 0.2       nmt_large.yml
Adam at 1e-4, ε 8e-7                 train.learning_rate, .epsilon       nmt_large.yml
norm up to 5                         train.clip_norm = 5                 model_base.py:131
50 tokens a side                     data.max_length = 50                nmt_large.yml
greedy                               decode.beam_size = 1                seq2seq_model.py:60

Probabilities, weights and gradients are those of google/seq2seq's recurrence to 1e-5, with both
scores (tests/model/test_google_seq2seq.py).

What still differs:
- The sizes, the data, the batches of 128 and the epochs are this project's: the original took 2.5
  million steps with 512 units, two layers of encoder and four of decoder. Here there is one of
  each, so that no dropout acts between layers.
- The original's dropout acts on the context that is fed, too.
- Its keys have a bias in the multiplicative score too (attention.py:100), which adds the same to
  every position's energy and so changes no weight.
- The encoder begins in U(-0.04, 0.04).
- The gradient of embeddings is clipped to a norm of 0.1 a matrix (seq2seq_model.py:63).
- Its pieces are tokenised text's.
"""

from bahdanau_jax.config import Config
from experiments import multi30k

SWEEPS = {
    "scores": [
        {
            "model.attention.score": "additive",
            "model.attention.scale": "none",
            "model.attention.bias": True,
        },
        {
            "model.attention.score": "projected",
            "model.attention.scale": "none",
            "model.attention.bias": True,
        },
        {
            "model.attention.score": "projected",
            "model.attention.scale": "sqrt",
            "model.attention.bias": True,
        },
    ],
    "units": {"model.attention.units": [128, 256, 512, 1024]},
}


def get_config() -> Config:
    config = multi30k.get_config()
    model, train = config.model, config.train
    model.cell = "lstm"
    model.forget_bias = 1
    model.embedding = 128
    model.encoder.units = 128
    model.decoder.units = 256
    model.attention.query = "current"
    model.attention.units = 512
    model.attention.bias = True
    model.feeding = "context"
    model.initial_state = "zero"
    model.readout = "tanh"
    model.readout_parts = "state_context"
    model.readout_units = 256

    train.epochs = 40
    train.batch_size = 128
    train.learning_rate = 1e-4
    train.epsilon = 8e-7
    train.schedule = "constant"
    train.warmup_steps = 0
    train.clip_norm = 5.0
    train.label_smoothing = 0.0
    train.dropout.embedding = 0.2
    train.dropout.annotations = 0.0
    train.dropout.readout = 0.0
    config.decode.beam_size = 1
    return config
