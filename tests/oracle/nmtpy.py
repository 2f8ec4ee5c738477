"""LIUM's conditional GRU as nmtpy computes it, in NumPy, with nmtpy's own parameters and layout.

Written from https://github.com/lium-lst/nmtpy: nmtpy/layers.py, `gru_step_lnorm` (the encoder's
step), `gru_cond_layer` (the decoder's); nmtpy/models/attention.py, `build`. Nothing of the package
is used. As there, time is the first axis and a batch the second, a mask is 1 at real words, and a
GRU's gates r and u lie side by side in one matrix, its proposal's weights in another, whose name
has an x. Biases inside the normalised sums, of s_0 and of the energies stay zero, as they begin.
Letters in shapes: S source words, T target words, B sentences, E embedding, H units, A attention.
"""

import numpy as np
from scipy.special import expit as sigmoid

Params = dict[str, np.ndarray]


def parameter_shapes(source: int, target: int, E: int, H: int) -> dict[str, tuple]:
    """Returns the shape of each parameter for vocabularies of `source` and `target` words."""
    A = C = 2 * H
    shapes = {"src_emb": (source, E), "trg_emb": (target, E)}
    for name in ("encoder", "encoder_r", "decoder"):
        shapes |= {f"{name}_W": (E, 2 * H), f"{name}_Wx": (E, H)}
        shapes |= {f"{name}_U": (H, 2 * H), f"{name}_Ux": (H, H)}
    for name in ("encoder", "encoder_r"):
        for kind in "bs":  # of inputs 1, 2, of states 3, 4; of gates 1, 3, of proposals 2, 4
            shapes |= {f"{name}_{kind}{k}": (2 * H if k in (1, 3) else H,) for k in (1, 2, 3, 4)}
    shapes |= {"decoder_b": (2 * H,), "decoder_bx": (H,)}
    shapes |= {"decoder_U_nl": (H, 2 * H), "decoder_b_nl": (2 * H,), "decoder_Ux_nl": (H, H)}
    shapes |= {"decoder_bx_nl": (H,), "decoder_Wc": (C, 2 * H), "decoder_Wcx": (C, H)}
    shapes |= {"W_comb_att": (H, A), "Wc_att": (C, A), "b_att": (A,), "U_att": (A, 1)}
    shapes |= {"ff_state_W": (C, H), "ff_logit_gru_W": (H, E), "ff_logit_gru_b": (E,)}
    shapes |= {"ff_logit_prev_W": (E, E), "ff_logit_ctx_W": (C, E)}
    return shapes | {"ff_logit_W": (E, target), "ff_logit_b": (target,)}


def layer_norm(x: np.ndarray, b: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Returns each row of x [B, N] at mean 0 and variance 1, scaled by s and shifted by b."""
    return s * (x - x.mean(1)[:, None]) / np.sqrt(x.var(1)[:, None] + 1e-5) + b


def masked(mask: np.ndarray, new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Returns the new state [B, H] at real words and the old one elsewhere."""
    return mask[:, None] * new + (1 - mask[:, None]) * old


def gru_step_lnorm(params: Params, name: str, embedded, h, mask) -> np.ndarray:
    """Returns the next state [B, H] of one direction of the encoder."""
    b, s = ([params[f"{name}_{kind}{k}"] for k in (1, 2, 3, 4)] for kind in "bs")
    x = layer_norm(embedded @ params[f"{name}_W"], b[0], s[0])
    xx = layer_norm(embedded @ params[f"{name}_Wx"], b[1], s[1])
    gates = sigmoid(layer_norm(h @ params[f"{name}_U"], b[2], s[2]) + x)
    r, u = np.split(gates, 2, axis=1)
    proposal = np.tanh(layer_norm(h @ params[f"{name}_Ux"], b[3], s[3]) * r + xx)
    return masked(mask, u * proposal + (1 - u) * h, h)


def encode(params: Params, x: np.ndarray, x_mask: np.ndarray) -> np.ndarray:
    """Returns the annotations [S, B, 2H] of ids x [S, B]."""
    directions = []
    for name, order in (("encoder", slice(None)), ("encoder_r", slice(None, None, -1))):
        h = np.zeros((x.shape[1], len(params["decoder_bx"])))
        states = []
        for ids, mask in zip(x[order], x_mask[order], strict=True):
            h = gru_step_lnorm(params, name, params["src_emb"][ids], h, mask)
            states.append(h)
        directions.append(np.stack(states)[order])
    return np.concatenate(directions, axis=2)


def gru_cond_step(params: Params, embedded, h, mask, ctx, x_mask):
    """Returns the next state [B, H], the context [B, 2H] and the weights [S, B]."""
    gates = sigmoid(h @ params["decoder_U"] + embedded @ params["decoder_W"] + params["decoder_b"])
    r, u = np.split(gates, 2, axis=1)
    below = embedded @ params["decoder_Wx"] + params["decoder_bx"]
    proposal = np.tanh((h @ params["decoder_Ux"]) * r + below)
    h1 = masked(mask, u * proposal + (1 - u) * h, h)

    inside = ctx @ params["Wc_att"] + params["b_att"] + h1 @ params["W_comb_att"]
    alpha = (np.tanh(inside) @ params["U_att"])[:, :, 0]
    alpha = np.exp(alpha - alpha.max(axis=0)) * x_mask
    alpha = alpha / alpha.sum(axis=0)
    context = (ctx * alpha[:, :, None]).sum(axis=0)

    gates = h1 @ params["decoder_U_nl"] + params["decoder_b_nl"] + context @ params["decoder_Wc"]
    r, u = np.split(sigmoid(gates), 2, axis=1)
    proposal = (h1 @ params["decoder_Ux_nl"] + params["decoder_bx_nl"]) * r
    proposal = np.tanh(proposal + context @ params["decoder_Wcx"])
    return masked(mask, u * proposal + (1 - u) * h1, h1), context, alpha


def log_probabilities(params: Params, x, x_mask, y, y_mask) -> tuple[np.ndarray, np.ndarray]:
    """Returns log p of each target word, [T, B], 0 where masked, and the weights [T, S, B].

    The word before the first has an embedding of zeros.
    """
    ctx = encode(params, x, x_mask)
    mean = (ctx * x_mask[:, :, None]).sum(axis=0) / x_mask.sum(axis=0)[:, None]
    h = np.tanh(mean @ params["ff_state_W"])
    embedded = np.zeros((x.shape[1], params["trg_emb"].shape[1]))
    log_p, alphas = [], []
    for ids, mask in zip(y, y_mask, strict=True):
        h, context, alpha = gru_cond_step(params, embedded, h, mask, ctx, x_mask)
        logit = h @ params["ff_logit_gru_W"] + params["ff_logit_gru_b"]
        logit = logit + context @ params["ff_logit_ctx_W"] + embedded @ params["ff_logit_prev_W"]
        logit = np.tanh(logit) @ params["ff_logit_W"] + params["ff_logit_b"]
        of_words = logit - np.log(np.exp(logit).sum(axis=1, keepdims=True))
        log_p.append(mask * of_words[np.arange(len(ids)), ids])
        alphas.append(alpha)
        embedded = params["trg_emb"][ids]
    return np.stack(log_p), np.stack(alphas)


def cost(params: Params, x, x_mask, y, y_mask) -> float:
    """Returns -log p summed over a sentence's words, averaged over sentences, in nats."""
    return -float(log_probabilities(params, x, x_mask, y, y_mask)[0].sum(axis=0).mean())
