"""The decoder of Britz et al. 2017 as google/seq2seq computes it, in NumPy, with its own layout.

Written from https://github.com/google/seq2seq: seq2seq/decoders/attention_decoder.py,
`AttentionDecoder`; attention.py, `AttentionLayer`; encoders/rnn_encoder.py,
`BidirectionalRNNEncoder`; losses.py and models/seq2seq_model.py, `compute_loss`; and TensorFlow
1.0's LSTMCell, whose one kernel acts on [inputs ; h] and has the gates in the order input,
proposal, forget, output. Nothing of the package is used. The score is Bahdanau's where there is a
v_att, and otherwise the product that the paper calls multiplicative. Only one layer on each side.
Letters in shapes: S source words, T target words, E embedding, H units, A attention.
"""

import numpy as np
from scipy.special import expit as sigmoid

Params = dict[str, np.ndarray]
SOS = 1  # the begin mark, a word like the others


def parameter_shapes(
    source: int, target: int, E: int, H: int, A: int, score: str
) -> dict[str, tuple]:
    """Returns the shape of each parameter; `score` is "bahdanau" or "dot"."""
    shapes = {"source_W": (source, E), "target_W": (target, E)}
    for name, inputs in (("fw", E), ("bw", E), ("decoder", E + 2 * H)):
        shapes |= {f"{name}_kernel": (inputs + H, 4 * H), f"{name}_bias": (4 * H,)}
    shapes |= {"att_keys": (2 * H, A), "att_keys_b": (A,), "att_query": (H, A)}
    shapes |= {"att_query_b": (A,)} | ({"v_att": (A,)} if score == "bahdanau" else {})
    shapes |= {"attention_mix": (3 * H, H), "attention_mix_b": (H,)}
    return shapes | {"logits": (H, target), "logits_b": (target,)}


def lstm_cell(params: Params, name: str, inputs, state):
    """Returns the output h [H] and the state (memory, h); the forget gate has a bias of 1."""
    memory, h = state
    both = np.concatenate([inputs, h]) @ params[f"{name}_kernel"] + params[f"{name}_bias"]
    i, j, f, o = np.split(both, 4)
    memory = sigmoid(f + 1.0) * memory + sigmoid(i) * np.tanh(j)
    h = sigmoid(o) * np.tanh(memory)
    return h, (memory, h)


def dynamic_rnn(params: Params, name: str, words: np.ndarray) -> np.ndarray:
    """Returns the outputs [S, H] of one direction over embedded words [S, E], from zeros."""
    units = params[f"{name}_kernel"].shape[1] // 4
    state = (np.zeros(units), np.zeros(units))
    outputs = []
    for word in words:
        output, state = lstm_cell(params, name, word, state)
        outputs.append(output)
    return np.stack(outputs)


def attend(params: Params, query: np.ndarray, values: np.ndarray):
    """Returns the normalised scores [S] and the context [2H] of one query [H]."""
    keys = values @ params["att_keys"] + params["att_keys_b"]
    query = query @ params["att_query"] + params["att_query_b"]
    if "v_att" in params:
        scores = (params["v_att"] * np.tanh(keys + query)).sum(axis=1)
    else:
        scores = (keys * query).sum(axis=1)
    scores = np.exp(scores - scores.max())
    scores = scores / scores.sum()
    return scores, (scores[:, None] * values).sum(axis=0)


def decode(params: Params, source: np.ndarray, target: np.ndarray):
    """Returns log p of each word of one target [T] and the scores [T, S], given a source [S]."""
    words = params["source_W"][source]
    backward = dynamic_rnn(params, "bw", words[::-1])[::-1]
    values = np.concatenate([dynamic_rnn(params, "fw", words), backward], axis=1)
    units = params["attention_mix"].shape[1]
    state, context = (np.zeros(units), np.zeros(units)), np.zeros(values.shape[1])  # ZeroBridge
    log_p, all_scores = [], []
    for before, word in zip([SOS, *target[:-1]], target, strict=True):
        inputs = np.concatenate([params["target_W"][before], context])
        output, state = lstm_cell(params, "decoder", inputs, state)
        scores, context = attend(params, output, values)
        mixed = np.concatenate([output, context]) @ params["attention_mix"]
        mixed = np.tanh(mixed + params["attention_mix_b"])
        logits = mixed @ params["logits"] + params["logits_b"]
        log_p.append(logits[word] - np.log(np.exp(logits).sum()))
        all_scores.append(scores)
    return np.array(log_p), np.stack(all_scores)


def log_probabilities(params: Params, x, x_mask, y, y_mask) -> tuple[np.ndarray, np.ndarray]:
    """Returns log p of each target word, [T, B], and the scores [T, S, B]; 0 where masked."""
    log_p, alignments = np.zeros(y.shape), np.zeros((len(y), *x.shape))
    for row in range(x.shape[1]):
        S, T = int(x_mask[:, row].sum()), int(y_mask[:, row].sum())
        log_p[:T, row], alignments[:T, :S, row] = decode(params, x[:S, row], y[:T, row])
    return log_p, alignments


def cost(params: Params, x, x_mask, y, y_mask) -> float:
    """Returns the mean of -log p over all real words of the batch, in nats."""
    return -float(log_probabilities(params, x, x_mask, y, y_mask)[0].sum() / y_mask.sum())
