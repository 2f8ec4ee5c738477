"""Where each choice of a configuration comes from: the paper and its section, or this project."""

import re
from typing import Any, NamedTuple

from bahdanau_jax.allowed import SCORES
from bahdanau_jax.config import Config
from bahdanau_jax.effects import ineffective
from bahdanau_jax.fields import value_of

PAPER = "Bahdanau et al. 2014"
LUONG = "Luong et al. 2015"
OURS = "this project"
NONE = f"{PAPER}: none"
FOLLOWED = {"bahdanau_2014": PAPER, "luong_2015": LUONG}  # by the value of `follows`
_PAPERS = tuple(FOLLOWED.values())

# For each field the values that stand somewhere; `None` is for all the others.
ORIGINS: dict[str, dict[Any, str]] = {
    "data.max_length": {30: f"{PAPER}, 4.2", 50: f"{PAPER}, 4.2; {LUONG}, 4.1"},
    "data.pool": {
        0: f"{OURS}: batches of one padded shape, over the whole epoch",
        20: f"{PAPER}, B.2: 1600 pairs sorted and cut into 20 batches",
        100: f"{LUONG}, its code: 100 batches are read and sorted",
    },
    "data.vocabulary.kind": {
        "characters": OURS,
        "symbols": OURS,
        "words": f"{PAPER}, 4.1: a shortlist, and [UNK] for every other word",
        "bpe": "Sennrich et al. 2016",
        "unigram": "Kudo 2018",
    },
    "data.vocabulary.size": {
        0: f"{OURS}: all that occur",
        30_004: f"{PAPER}, 4.1: the 30,000 most frequent; 4 special entries",
        50_004: f"{LUONG}, 4.1: the 50,000 most frequent; 4 special entries",
    },
    "model.cell": {
        "gru": f"{PAPER}, A.1.1 (Cho et al. 2014)",
        "lstm": f"{LUONG}, 4.1 (Hochreiter and Schmidhuber 1997)",
    },
    "model.gru_reset": {
        "before": f"{PAPER}, A.1.1: tanh(W e(y) + U [r ∘ s] + C c)",
        "after": "cuDNN, PyTorch and Flax: tanh(W e(y) + r ∘ (U s) + C c)",
    },
    "model.forget_bias": {
        0: "nmt.hybrid, the code of Luong et al.: none",
        1: "TensorFlow's cells, and so google/seq2seq and shtoshni/g2p",
    },
    "model.embedding": {620: f"{PAPER}, A.2.3: m", 1000: f"{LUONG}, 4.1"},
    "model.encoder.units": {1000: f"{PAPER}, A.2.3: n; {LUONG}, 4.1"},
    "model.encoder.layers": {1: f"{PAPER}, 3.2", 4: f"{LUONG}, 4.1"},
    "model.encoder.bidirectional": {
        True: f"{PAPER}, 3.2: h_j = [→h_j ; ←h_j]",
        False: f"{PAPER}, 2.1 (RNNencdec); {LUONG}, 2",
    },
    "model.decoder.units": {1000: f"{PAPER}, A.2.3: n; {LUONG}, 4.1"},
    "model.decoder.layers": {1: f"{PAPER}, 3.1", 4: f"{LUONG}, 4.1"},
    "model.attention.score": {name: score.origin for name, score in SCORES.items()},
    "model.attention.units": {1000: f"{PAPER}, A.2.3: n'"},
    "model.attention.scale": {
        "none": f"{LUONG}, Equation 8",
        "sqrt": "Vaswani et al. 2017, 3.2.1",
        "linear": "Yang et al. 2022 (μP), Definition 4.1",
        "learned": "TensorFlow's LuongAttention, which begins at 1, too",
    },
    "model.attention.bias": {
        False: f"{PAPER}, A.1.2",
        True: "Toshniwal and Livescu 2016, and many tutorials; projected: google/seq2seq",
    },
    "model.attention.normalize": {
        False: f"{PAPER}, A.1.2",
        True: "Salimans and Kingma 2016; its start Raffel et al. 2017",
    },
    "model.attention.normalize_keys": {
        False: f"{PAPER}, A.1.2; {LUONG}, Equation 8",
        True: "Dehghani et al. 2023 (ViT-22B), 2: of products",
    },
    "model.attention.coverage": {False: NONE, True: "See, Liu and Manning 2017, Equation 11"},
    "model.attention.window": {
        "global": f"{PAPER}, 3.1; {LUONG}, 3.1",
        "local_m": f"{LUONG}, 3.2",
        "local_p": f"{LUONG}, 3.2, Equations 9 and 10",
    },
    "model.attention.half_width": {10: f"{LUONG}, 4.1: D"},
    "model.attention.renormalize": {False: f"{LUONG}, Equation 10", True: OURS},
    "model.attention.query": {
        "previous": f"{PAPER}, Equation 6: e_ij = a(s_{{i-1}}, h_j)",
        "intermediate": "the conditional GRU of dl4mt and Nematus (Sennrich et al. 2017)",
        "current": f"{LUONG}, 3; {PAPER}, its code, GroundHog",
    },
    "model.reverse_source": {
        False: f"{PAPER}, 3.2: the words in their order",
        True: f"Sutskever et al. 2014, 3.3; {LUONG}, 4.1",
    },
    "model.feeding": {
        "none": OURS,
        "context": "GroundHog, the code of Bahdanau et al., and google/seq2seq: c_{i-1}",
        "attentional": f"{LUONG}, 3.3",
    },
    "model.initial_state": {
        "backward": f"{PAPER}, A.2.2: tanh(W_s ←h_1)",
        "final": f"{OURS}; with one direction Cho et al. 2014: tanh(W_s h_S)",
        "mean": "dl4mt and Nematus: tanh(W_s mean of h)",
        "zero": OURS,
        "layers": "nmt.hybrid, the code of Luong et al., and shtoshni/g2p: of the same layer",
    },
    "model.readout": {
        "maxout": f"{PAPER}, A.2.2: U_o s_{{i-1}} + V_o E y_{{i-1}} + C_o c_i, by pairs",
        "tanh": "dl4mt and nmtpy: tanh(U_o s_i + V_o E y_{i-1} + C_o c_i)",
        "attentional": f"{LUONG}, Equation 5: tanh(W_c [c ; s])",
        "linear": "many tutorials: softmax(W_o s_i)",
    },
    "model.readout_parts": {
        "state_word_context": "dl4mt and nmtpy",
        "state_word": OURS,
        "state_context": "google/seq2seq (Britz et al. 2017)",
        "state": "nmtpytorch's simple output",
    },
    "model.readout_units": {500: f"{PAPER}, A.2.3: l", 1000: f"{LUONG}, 4.1"},
    "model.tie_embeddings": {
        "none": NONE,
        "output": "Press and Wolf 2017: of the decoder's input and output",
        "all": "Press and Wolf 2017: three-way",
    },
    "model.residual": {False: f"{LUONG}: none", True: "Wu et al. 2016, 3.1"},
    "model.layer_norm": {
        "none": NONE,
        "encoder": "nmtpy, whose conditional GRU has none; the equations of Ba et al. 2016",
        "decoder": f"{OURS}; the equations of Ba, Kiros and Hinton 2016, supplement",
        "both": "Ba, Kiros and Hinton 2016, supplement",
    },
    "model.initialization": {
        "paper": f"{PAPER}, B.1: orthogonal; W_a, U_a 0.001; v_a, b 0; others 0.01",
        "uniform": f"{LUONG}, 4.1: [-0.1, 0.1]",
        "glorot": f"{OURS}: Glorot and Bengio 2010; recurrent ones orthogonal",
    },
    "train.steps": {
        288_000: f"{PAPER}, Table 2: RNNsearch-50",
        600_000: f"{PAPER}, Table 2: RNNencdec-50",
    },
    "train.epochs": {12: f"{LUONG}, 4.1"},
    "train.batch_size": {80: f"{PAPER}, 4.2 and B.2", 128: f"{LUONG}, 4.1"},
    "train.batch_tokens": {},
    "train.normalize": {
        "tokens": OURS,
        "sentences": "GroundHog, the code of Bahdanau et al., and nmt.hybrid, that of Luong et al.",
    },
    "train.optimizer": {
        "adadelta": f"{PAPER}, B.2: ρ = 0.95, ε = 1e-6 (Zeiler 2012)",
        "adam": "Kingma and Ba 2015",
        "sgd": f"{LUONG}, 4.1",
    },
    "train.beta1": {0.9: "Kingma and Ba 2015"},
    "train.beta2": {0.999: "Kingma and Ba 2015"},
    "train.epsilon": {
        0.0: f"the optimizer's own (adam 1e-8, adadelta 1e-6); {PAPER}, B.2: 1e-6",
        8e-7: "google/seq2seq (Britz et al. 2017)",
    },
    "train.weight_decay": {0.0: NONE},
    "train.learning_rate": {1.0: f"{PAPER}, B.2: Adadelta's own; {LUONG}, 4.1"},
    "train.schedule": {
        "constant": NONE,
        "linear": OURS,
        "cosine": "Loshchilov and Hutter 2017",
        "inverse_sqrt": "Vaswani et al. 2017, 5.3",
        "halving": f"{LUONG}, 4.1",
        "plateau": "PyTorch's ReduceLROnPlateau",
    },
    "train.decay_factor": {0.5: f"{LUONG}, 4.1"},
    "train.decay_start": {5.0: f"{LUONG}, 4.1", 8.0: f"{LUONG}, 4.1, with dropout"},
    "train.decay_every": {1.0: f"{LUONG}, 4.1"},
    "train.decay_patience": {},
    "train.warmup_steps": {0: NONE},
    "train.clip_norm": {
        0.0: f"{OURS}: none",
        1.0: f"{PAPER}, B.2 (Pascanu et al. 2013)",
        5.0: f"{LUONG}, 4.1",
    },
    "train.average": {
        0.0: NONE,
        None: "Polyak and Juditsky 1992; by decay, as TensorFlow's ExponentialMovingAverage",
    },
    "train.label_smoothing": {0.0: NONE, None: "Szegedy et al. 2016, 7"},
    "train.guide": {0.0: NONE, None: "Liu et al. 2016; Chen et al. 2016; the logarithm Marian's"},
    "train.coverage": {0.0: NONE, None: "See, Liu and Manning 2017, Equations 12 and 13"},
    "train.dropout.source_words": {
        0.0: NONE,
        None: "Gal and Ghahramani 2016, 4.2; by position, as Nematus has it",
    },
    "train.dropout.target_words": {
        0.0: NONE,
        None: "Gal and Ghahramani 2016, 4.2; by position, as Nematus has it",
    },
    "train.dropout.embedding": {0.0: NONE, 0.2: f"{LUONG}, 4.1"},
    "train.dropout.layers": {0.0: NONE, 0.2: f"{LUONG}, 4.1", None: "Zaremba et al. 2014"},
    "train.dropout.states": {0.0: NONE, None: "Gal and Ghahramani 2016, 4.1; Nematus"},
    "train.dropout.annotations": {0.0: NONE},
    "train.dropout.readout": {0.0: NONE},
    "decode.beam_size": {1: f"{OURS}: the likeliest word at each step", None: "Graves 2012"},
    "decode.length_penalty": {
        "none": f"{OURS}: log p",
        "average": f"{PAPER}, 4.2: log p over the number of words",
        "gnmt": "Wu et al. 2016, Equation 14",
    },
    "decode.length_penalty_alpha": {},
    "decode.coverage_penalty": {0.0: NONE, None: "Wu et al. 2016, Equation 14"},
    "decode.min_length_ratio": {0.0: NONE, 0.5: "GroundHog, sample.py: half the source's length"},
    "decode.max_length_ratio": {},
    "decode.suppress_unk": {False: f"{PAPER}, Table 1: All", True: f"{PAPER}, Table 1: No UNK°"},
    "decode.temperature": {0.0: NONE},
    "decode.seed": {},
}

# Where these are 0 another field counts in their place.
OFF_AT_ZERO = ("train.epochs", "train.batch_tokens")


class Choice(NamedTuple):
    """One field of a configuration."""

    field: str  # its path, as on the command line
    value: Any
    origin: str  # where this value, or this form, stands


def choices(config: Config) -> list[Choice]:
    """Returns the choices that have an effect, each with where it comes from.

    A paper whose setting can be followed is named only by an experiment that says that it follows
    it (`follows`): a size that happens to be a paper's is this project's elsewhere.

    Args:
      config: validated.

    Returns:
      Data, model, training and search, in the order of the configuration's fields.
    """
    hidden = {
        *ineffective(config),
        *(count for count in OFF_AT_ZERO if not value_of(config, count)),
    }
    return [
        Choice(field, value, _origin(origins.get(value, origins.get(None, OURS)), value, config))
        for field, origins in ORIGINS.items()
        if field not in hidden
        for value in [value_of(config, field)]
    ]


def _origin(stated: str, value: Any, config: Config) -> str:
    """Returns of an origin what holds for an experiment, by the paper that it follows.

    Args:
      stated: an entry of `ORIGINS`: papers and what they say, with semicolons between.
      value: of the field. A name or a switch has a form, which is said without the paper too; a
        number is only a number.
      config: its `follows` is read.
    """
    parts = re.split(f"; (?={'|'.join(_PAPERS)})", stated)
    followed = FOLLOWED.get(config.follows)
    kept = [p for p in parts if not p.startswith(_PAPERS) or (followed and p.startswith(followed))]
    if kept:
        return "; ".join(kept)
    form = parts[0].partition(": ")[2]
    return form if form and isinstance(value, str | bool) else OURS
