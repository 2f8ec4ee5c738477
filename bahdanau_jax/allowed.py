"""What each field may be by itself: names, ranges, and the scores with their options.

`validation.py` holds what fields say together.
"""

from typing import NamedTuple


class Score(NamedTuple):
    """All that is said of a score outside `model/scores.py`, which computes it."""

    options: tuple[str, ...]  # of `model.attention`: those that it reads
    origin: str  # where it stands, for `explain`


SCORES = {
    "additive": Score(
        ("units", "bias", "normalize", "normalize_keys", "coverage", "window"),
        "Bahdanau et al. 2014, A.1.2: v_aᵀ tanh(W_a s_{i-1} + U_a h_j)",
    ),
    "dot": Score(("scale", "normalize_keys", "window"), "Luong et al. 2015, Equation 8: sᵀ h"),
    "general": Score(
        ("scale", "normalize_keys", "window"), "Luong et al. 2015, Equation 8: sᵀ W_a h"
    ),
    "concat": Score(
        ("units", "bias", "normalize", "normalize_keys", "window"),
        "Luong et al. 2015, Equation 8: v_aᵀ tanh(W_a [s ; h])",
    ),
    "concat_identity": Score(
        ("window",), "Luong's code: concat with its part on h fixed to the identity"
    ),
    "projected": Score(
        ("units", "scale", "bias", "normalize_keys", "window"),
        "Britz et al. 2017: (W_a s)ᵀ (U_a h)",
    ),
    "uniform": Score((), "this project: a control, the mean of the annotations"),
    "fixed": Score(
        (), "Bahdanau et al. 2014, 2.1 and 4.2 (RNNencdec): one vector for the sentence"
    ),
}

CONTROLS = ("uniform", "fixed")  # scores whose weights nothing learnt decides

# By `evaluation.metrics`: the metrics, beside nll_per_token, that may choose the best checkpoint.
METRICS = {
    "error_rate": ("per", "cer", "wer", "exact_match"),
    "bleu": ("bleu", "chrf", "ter", "exact_match"),
}

CHOICES = {
    "follows": ("", "bahdanau_2014", "luong_2015"),
    "data.vocabulary.kind": ("characters", "symbols", "words", "unigram", "bpe"),
    "data.vocabulary.target_kind": ("", "characters", "symbols", "words", "unigram", "bpe"),
    "model.cell": ("gru", "lstm"),
    "model.gru_reset": ("before", "after"),
    "model.attention.score": tuple(SCORES),
    "model.attention.scale": ("none", "sqrt", "linear", "learned"),
    "model.attention.window": ("global", "local_m", "local_p"),
    "model.attention.query": ("previous", "intermediate", "current"),
    "model.feeding": ("none", "context", "attentional"),
    "model.initial_state": ("backward", "final", "mean", "zero", "layers"),
    "model.readout": ("maxout", "tanh", "attentional", "linear"),
    "model.readout_parts": ("state_word_context", "state_word", "state_context", "state"),
    "model.tie_embeddings": ("none", "output", "all"),
    "model.layer_norm": ("none", "encoder", "decoder", "both"),
    "model.initialization": ("glorot", "paper", "uniform"),
    "model.kernels": ("auto", "reference"),
    "train.precision": ("float32", "tf32", "default", "bfloat16_storage", "bfloat16"),
    "train.optimizer": ("adam", "adadelta", "sgd"),
    "train.normalize": ("tokens", "sentences"),
    "train.schedule": ("constant", "linear", "cosine", "inverse_sqrt", "halving", "plateau"),
    "train.metric": ("nll_per_token", *dict.fromkeys(sum(METRICS.values(), ()))),
    "decode.length_penalty": ("none", "average", "gnmt"),
    "evaluation.metrics": tuple(METRICS),
    "evaluation.tokenize": (
        *("13a", "intl", "char", "zh", "ja-mecab", "ko-mecab", "flores200", "none"),
    ),
}

MOST = 2**31  # what no size or count comes near, and int32 doesn't hold

# Smallest value, and the value that is too large (None: MOST, which is beyond reason for all).
RANGES = {
    "data.max_length": (1, None),
    "data.shapes": (1, None),
    "data.pool": (0, None),
    "data.seed": (0, 2**63),
    "data.links_base": (0, 2),
    "data.vocabulary.size": (0, None),
    "data.vocabulary.target_size": (0, None),
    "model.forget_bias": (0, 2),
    "model.embedding": (1, None),
    "model.encoder.units": (1, None),
    "model.encoder.layers": (1, 1000),
    "model.decoder.units": (1, None),
    "model.decoder.layers": (1, 1000),
    "model.attention.units": (1, None),
    "model.attention.half_width": (1, None),
    "model.readout_units": (1, None),
    "train.steps": (1, MOST),
    "train.epochs": (0, None),
    "train.eval_every": (1, None),
    "train.checkpoint_every": (1, None),
    "train.log_every": (1, None),
    "train.batch_size": (1, None),
    "train.batch_tokens": (0, None),
    "train.accumulate": (1, None),
    "train.learning_rate": (0, None),
    "train.beta1": (0, 1),
    "train.beta2": (0, 1),
    "train.epsilon": (0, 1),
    "train.weight_decay": (0, 1),
    "train.decay_factor": (0, 1),
    "train.decay_start": (0, None),
    "train.decay_every": (0, None),
    "train.decay_patience": (0, None),
    "train.warmup_steps": (0, None),
    "train.clip_norm": (0, None),
    "train.average": (0, 1),
    "train.label_smoothing": (0, 1),
    "train.coverage": (0, None),
    "train.guide": (0, None),
    "train.dropout.source_words": (0, 1),
    "train.dropout.target_words": (0, 1),
    "train.dropout.embedding": (0, 1),
    "train.dropout.layers": (0, 1),
    "train.dropout.states": (0, 1),
    "train.dropout.annotations": (0, 1),
    "train.dropout.readout": (0, 1),
    "train.max_skipped": (1, None),
    "train.keep": (1, 1000),
    "train.keep_best": (1, 101),
    "train.patience": (0, None),
    "decode.batch_size": (1, 2**20),
    "decode.beam_size": (1, 10_000),
    "decode.length_penalty_alpha": (0, None),
    "decode.coverage_penalty": (0, None),
    "decode.min_length_ratio": (0, 1000),
    "decode.max_length_ratio": (0, 1000),
    "decode.temperature": (0, None),
    "decode.seed": (0, None),
    "evaluation.samples": (0, None),
    "seed": (0, 2**32),
}
