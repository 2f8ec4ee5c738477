"""Luong et al. 2015 as nmt.hybrid computes it, in NumPy, with its own parameters and layout.

Written from https://github.com/lmthang/nmt.hybrid, code/layers: lstmUnitForward.m,
rnnStepLayerForward.m, attnLayerForward.m (attnOpt 2, "general", attnGlobal 1) and
softmaxLayerForward.m; code/misc/getLstmDecoderInput.m. Nothing of the package is used. As there,
vectors are columns, W of a layer acts on [x ; h] and has the gates in the order input, forget,
output, signal, without biases, and a sentence's words are given in the order in which they are
read. Only the window of local attention is left out.
Letters in shapes: S source words, T target words, E embedding, H units.
"""

import numpy as np
from scipy.special import expit as sigmoid

Params = dict[str, np.ndarray]
LAYERS = 2
SOS = 1


def parameter_shapes(source: int, target: int, E: int, H: int) -> dict[str, tuple]:
    """Returns the shape of each parameter for vocabularies of `source` and `target` words."""
    shapes = {"W_emb_src": (E, source), "W_emb_tgt": (E, target)}
    for layer in range(LAYERS):
        below = H if layer else E
        shapes[f"W_src_{layer}"] = (4 * H, below + H)
        shapes[f"W_tgt_{layer}"] = (4 * H, below + (0 if layer else H) + H)
    return shapes | {"W_a": (H, H), "W_h": (H, 2 * H), "W_soft": (target, H)}


def lstm_unit(W: np.ndarray, x: np.ndarray, h: np.ndarray, c: np.ndarray):
    """Returns the next h [H] and cell c [H] of one layer."""
    i, f, o, a = np.split(W @ np.concatenate([x, h]), 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(a)
    return sigmoid(o) * np.tanh(c), c


def rnn_step(params: Params, side: str, x: np.ndarray, states: list) -> list:
    """Returns the next (h, c) of every layer; a layer reads the one below."""
    after = []
    for layer, (h, c) in enumerate(states):
        after.append(lstm_unit(params[f"W_{side}_{layer}"], x, h, c))
        x = after[-1][0]
    return after


def attend(params: Params, h_t: np.ndarray, src_hid_vecs: np.ndarray):
    """Returns the softmax vector f(W_h [context ; h_t]) [H] and the weights [S]."""
    scores = src_hid_vecs @ (params["W_a"] @ h_t)
    weights = np.exp(scores - scores.max())
    weights = weights / weights.sum()
    context = weights @ src_hid_vecs
    return np.tanh(params["W_h"] @ np.concatenate([context, h_t])), weights


def decode(params: Params, source: np.ndarray, target: np.ndarray):
    """Returns log p of each word of one target [T] and the weights [T, S], given a source [S]."""
    units = params["W_a"].shape[0]
    states = [(np.zeros(units), np.zeros(units)) for _ in range(LAYERS)]
    src_hid_vecs = []
    for word in source:
        states = rnn_step(params, "src", params["W_emb_src"][:, word], states)
        src_hid_vecs.append(states[-1][0])
    src_hid_vecs, softmax_h = np.stack(src_hid_vecs), np.zeros(units)
    log_p, all_weights = [], []
    for before, word in zip([SOS, *target[:-1]], target, strict=True):  # the encoder's states go on
        x = np.concatenate([params["W_emb_tgt"][:, before], softmax_h])
        states = rnn_step(params, "tgt", x, states)
        softmax_h, weights = attend(params, states[-1][0], src_hid_vecs)
        scores = params["W_soft"] @ softmax_h
        log_p.append(scores[word] - np.log(np.exp(scores).sum()))
        all_weights.append(weights)
    return np.array(log_p), np.stack(all_weights)


def log_probabilities(params: Params, x, x_mask, y, y_mask) -> tuple[np.ndarray, np.ndarray]:
    """Returns log p of each target word, [T, B], and the weights [T, S, B]; 0 where masked.

    `x` is as it is written. Its words are read from the last to the first, and then its last
    entry, the end mark, which the original's source has not. The weights lie as `x` is written.
    """
    log_p, alignments = np.zeros(y.shape), np.zeros((len(y), *x.shape))
    for row in range(x.shape[1]):
        S, T = int(x_mask[:, row].sum()), int(y_mask[:, row].sum())
        order = [*range(S - 2, -1, -1), S - 1]
        log_p[:T, row], weights = decode(params, x[order, row], y[:T, row])
        alignments[:T, order, row] = weights
    return log_p, alignments


def cost(params: Params, x, x_mask, y, y_mask) -> float:
    """Returns -log p summed over a sentence's words, averaged over sentences, in nats."""
    return -float(log_probabilities(params, x, x_mask, y, y_mask)[0].sum(axis=0).mean())
