"""Grapheme to phoneme after Toshniwal and Livescu 2016, on the PRONALSYL-2007 split of CMUdict.

    python launch.py --config=experiments/toshniwal_g2p.py

The data are those of pronalsyl.py. The files are those of https://github.com/shtoshni/g2p.

Hardware: one GPU.
Time: not yet measured.
Expect: not yet measured. Quoted for the paper (arXiv 1610.06540), global attention: PER 5.04, WER
  21.69; five models together 4.69 and 20.24.

original says                        field                               where
-----------------------------------  ----------------------------------  ------------------------
embeddings of 512                    model.embedding = 512               g2p.py:55
3 LSTM layers of 512 a direction     model.encoder.units, .layers        g2p.py:58, encoder.py:75
3 LSTM layers of 512                 model.decoder.units, .layers        decoder.py:72
tanh over 64, with a bias            model.attention.units, .bias        attn_decoder.py:47, 68
the step's own output queries        model.attention.query = current     attn_decoder.py:99
the context enters the next step     model.feeding = context             attn_decoder.py:121
the source in reverse                model.reverse_source = true         seq2seq_model.py:224
each layer's last forward states     model.initial_state = layers        encoder.py:87, 130
forget gates begin with a bias of 1  model.forget_bias = 1               BasicLSTMCell
dropout 0.2 on every layer's output  train.dropout.layers, .annotations, encoder.py:49,
                                     .readout = 0.2                      decoder.py:68
Adam at 1e-3, 256 words              train.learning_rate, .batch_size    g2p.py:41, 50
rate x 0.8 where training gets worse train.schedule = plateau            g2p.py:44, 291
norm up to 5                         train.clip_norm = 5                 g2p.py:47
100 epochs, by the development WER   train.epochs = 100, .metric = wer   g2p.py:99, 312
greedy                               decode.beam_size = 1                g2p.py:355

What still differs:
- The top state is projected to the words first. This projection queries, and a second one of it and
  the context is the output (decoder.py:78, attn_decoder.py:101). Here a tanh of state and context
  lies before the output.
- Word and context are projected to 512 together before the cell reads them (attn_decoder.py:121).
- Embeddings begin in U(-1, 1), the encoder in U(-0.075, 0.075) (encoder.py:73, 112); here as
  model.initialization=glorot says.
- A word's loss is divided by its own length, then by the number of words (seq2seq_model.py:142).
- The rate falls where an epoch's training loss is above those of the three before. Here it falls
  after the third evaluation without a better WER. The checkpoint is chosen by the mean WER of three
  epochs there (g2p.py:303), here by that of one.
"""

from bahdanau_jax.config import Config
from experiments import pronalsyl


def get_config() -> Config:
    config = pronalsyl.get_config()
    model, train = config.model, config.train
    model.cell = "lstm"
    model.embedding = 512
    model.encoder.units = 512
    model.encoder.layers = 3
    model.decoder.units = 512
    model.decoder.layers = 3
    model.attention.query = "current"
    model.attention.units = 64
    model.attention.bias = True
    model.feeding = "context"
    model.initial_state = "layers"
    model.forget_bias = 1
    model.reverse_source = True
    model.readout = "tanh"
    model.readout_parts = "state_context"
    model.readout_units = 512

    train.epochs = 100
    train.batch_size = 256
    train.learning_rate = 1e-3
    train.schedule = "plateau"
    train.decay_factor = 0.8
    train.decay_patience = 2
    train.warmup_steps = 0
    train.clip_norm = 5.0
    train.label_smoothing = 0.0
    train.dropout.embedding = 0.0
    train.dropout.layers = 0.2
    train.dropout.annotations = 0.2
    train.dropout.readout = 0.2
    train.eval_every = 430  # once an epoch, nearly
    train.checkpoint_every = 430
    train.metric = "wer"
    config.decode.beam_size = 1
    return config
