"""RNNsearch as GroundHog computes it, in NumPy, with GroundHog's own parameters and its own layout.

Written from https://github.com/lisa-groundhog/GroundHog, experiments/nmt/encdec.py:
`RecurrentLayerWithSearch.step_fprop` (the decoder's step), `Encoder.build_encoder`,
`Decoder.build_decoder`; groundhog/layers/rec_layers.py, `RecurrentLayer.step_fprop` (the encoder's
step); groundhog/layers/cost_layers.py, `SoftmaxLayer`. Nothing of the package is used.

As there, time is the first axis and a batch the second, a mask is 1 at real words, W acts on the
proposal, G on the update gate, R on the reset gate, and a matrix of embeddings is a product of two.
Letters in shapes: S source words, T target words, B sentences, E embedding, H units, R readout.
"""

import numpy as np
from scipy.special import expit as sigmoid

Params = dict[str, np.ndarray]


def parameter_shapes(source: int, target: int, E: int, H: int, R: int) -> dict[str, tuple]:
    """Returns the shape of each parameter for vocabularies of `source` and `target` words."""
    shapes = {"enc_embdr": (source, E), "enc_embdr_b": (E,), "dec_embdr": (target, E)}
    shapes["dec_embdr_b"] = (E,)
    for side in ("enc", "back", "dec"):
        for gate in "WGR":  # proposal, update, reset
            shapes |= {f"{side}_{gate}_in": (E, H), f"{side}_{gate}_hh": (H, H)}
        shapes[f"{side}_W_b"] = (H,)  # `learn_bias=False` for both gates
    shapes |= {f"dec_c_{gate}": (2 * H, H) for gate in "WGR"}
    shapes |= {"A_cp": (2 * H, H), "B_hp": (H, H), "D_pe": (H, 1), "initializer": (H, H)}
    shapes |= {"repr_readout": (2 * H, 2 * R), "hid_readout": (H, 2 * R), "hid_readout_b": (2 * R,)}
    shapes |= {"prev_readout": (E, 2 * R), "softmax_1": (R, E), "softmax_2": (E, target)}
    return shapes | {"softmax_b": (target,)}


def gated_step(params: Params, side: str, below: dict, before, mask) -> np.ndarray:
    """Returns the next state [B, H] from the three signals of below; where masked, the old one."""
    reset = sigmoid(before @ params[f"{side}_R_hh"] + below["R"])
    proposal = np.tanh((reset * before) @ params[f"{side}_W_hh"] + below["W"])
    update = sigmoid(before @ params[f"{side}_G_hh"] + below["G"])
    state = update * proposal + (1 - update) * before
    return mask[:, None] * state + (1 - mask[:, None]) * before


def signals(params: Params, side: str, embedded: np.ndarray) -> dict[str, np.ndarray]:
    """Returns what one word sends to the proposal and to both gates, [B, H] each."""
    below = {gate: embedded @ params[f"{side}_{gate}_in"] for gate in "WGR"}
    return below | {"W": below["W"] + params[f"{side}_W_b"]}


def encode(params: Params, x: np.ndarray, x_mask: np.ndarray) -> np.ndarray:
    """Returns the annotations c [S, B, 2H] of ids x [S, B]; both directions share embeddings."""
    directions = []
    for side, order in (("enc", slice(None)), ("back", slice(None, None, -1))):
        state = np.zeros((x.shape[1], len(params["enc_W_b"])))
        states = []
        for ids, mask in zip(x[order], x_mask[order], strict=True):
            embedded = params["enc_embdr"][ids] + params["enc_embdr_b"]
            state = gated_step(params, side, signals(params, side, embedded), state, mask)
            states.append(state)
        directions.append(np.stack(states)[order])
    return np.concatenate(directions, axis=2)


def attend(params: Params, c: np.ndarray, c_mask: np.ndarray, before: np.ndarray):
    """Returns the context [B, 2H] and the weights [S, B] that the state before a step asks for."""
    p = before @ params["B_hp"] + c @ params["A_cp"]
    energy = np.exp(np.tanh(p) @ params["D_pe"])[:, :, 0] * c_mask
    probs = energy / energy.sum(axis=0)
    return (c * probs[:, :, None]).sum(axis=0), probs


def step_fprop(params: Params, word: np.ndarray, before, mask, c, c_mask):
    """Returns the next state, the context and the weights: one step of the decoder."""
    context, probs = attend(params, c, c_mask, before)
    below = signals(params, "dec", word)
    below = {gate: below[gate] + context @ params[f"dec_c_{gate}"] for gate in "WGR"}
    return gated_step(params, "dec", below, before, mask), context, probs


def log_probabilities(params: Params, x, x_mask, y, y_mask) -> tuple[np.ndarray, np.ndarray]:
    """Returns log p of each target word, [T, B], 0 where masked, and the weights [T, S, B].

    A state has read its own word; the readout of a word sees the state before it, the word before
    it (nothing for the first) and the context of its own step.
    """
    c = encode(params, x, x_mask)
    H = c.shape[2] // 2
    state = np.tanh(c[0, :, -H:] @ params["initializer"])
    shifted = np.zeros((x.shape[1], params["prev_readout"].shape[1]))
    log_p, alignments = [], []
    for ids, mask in zip(y, y_mask, strict=True):
        word = params["dec_embdr"][ids] + params["dec_embdr_b"]
        after, context, probs = step_fprop(params, word, state, mask, c, x_mask)
        readout = context @ params["repr_readout"]
        readout = readout + state @ params["hid_readout"] + params["hid_readout_b"] + shifted
        pairs = readout.reshape(len(ids), -1, 2).max(axis=2)  # maxout of neighbours
        output = pairs @ params["softmax_1"] @ params["softmax_2"] + params["softmax_b"]
        of_words = output - np.log(np.exp(output).sum(axis=1, keepdims=True))
        log_p.append(mask * of_words[np.arange(len(ids)), ids])
        alignments.append(probs)
        state, shifted = after, word @ params["prev_readout"]
    return np.stack(log_p), np.stack(alignments)


def cost(params: Params, x, x_mask, y, y_mask) -> float:
    """Returns -log p summed over a sentence's words, averaged over sentences, in nats.

    The original sums over sentences too, and then clips the gradient's norm.
    """
    return -float(log_probabilities(params, x, x_mask, y, y_mask)[0].sum(axis=0).mean())
