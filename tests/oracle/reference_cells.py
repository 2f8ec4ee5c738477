"""The oracle's recurrent cells: one step of one sentence, in NumPy.

`params` holds one cell's arrays: W [I, nH], U [H, nH], b [nH], C [C, nH] if a context enters, b_u
[H] in the GRU with the reset after the product. A cell is normalised where it has gain_W, gain_U,
gain_C [nH], and in the LSTM gain_m, b_m [H].
"""

from typing import Any

import numpy as np
from scipy.special import expit as sigmoid

from bahdanau_jax.config import ModelConfig

EPSILON = 1e-5  # added to the variance by layer normalisation
Params = dict[str, Any]


def normalize(x: np.ndarray, gain: np.ndarray) -> np.ndarray:
    """Layer normalisation of one vector, without a shift (Ba 2016, equation 4)."""
    return gain * (x - x.mean()) / np.sqrt(((x - x.mean()) ** 2).mean() + EPSILON)


def normalize_apart(x: np.ndarray, gain: np.ndarray, together: int) -> np.ndarray:
    """The first `together` numbers normalised as one vector, and the rest, if any, as another."""
    normalized = np.zeros(len(x))
    normalized[:together] = normalize(x[:together], gain[:together])
    if len(x) > together:
        normalized[together:] = normalize(x[together:], gain[together:])
    return normalized


def input_part(params: Params, x, context, together: int) -> np.ndarray:
    """What enters a cell from outside the recurrence: xW + cC + b, normalised apart (Ba 2016).

    `together` numbers have common statistics: an LSTM's four gates, a GRU's two without the
    proposal.
    """
    part = x @ params["W"]
    if "gain_W" in params:
        part = normalize_apart(part, params["gain_W"], together)
    if context is not None:
        from_context = context @ params["C"]
        if "gain_C" in params:
            from_context = normalize_apart(from_context, params["gain_C"], together)
        part = part + from_context
    return part + params["b"]


def gru_before_step(params: Params, x, s, context=None) -> np.ndarray:
    """The paper's GRU, reset before the product (Cho 2014, 2.3; Bahdanau 2014, A.1.1) -> [H]."""
    H = len(s)
    from_input = input_part(params, x, context, 2 * H)
    from_state = s @ params["U"][:, : 2 * H]
    if "gain_U" in params:
        from_state = normalize(from_state, params["gain_U"][: 2 * H])
    reset = sigmoid(from_input[:H] + from_state[:H])
    update = sigmoid(from_input[H : 2 * H] + from_state[H:])
    from_reset = (reset * s) @ params["U"][:, 2 * H :]
    if "gain_U" in params:
        from_reset = normalize(from_reset, params["gain_U"][2 * H :])
    proposal = np.tanh(from_input[2 * H :] + from_reset)
    return (1.0 - update) * s + update * proposal


def gru_after_step(params: Params, x, s, context=None) -> np.ndarray:
    """The GRU of cuDNN, reset after the product (Cho 2014, version 1; torch.nn.GRU) -> [H]."""
    H = len(s)
    from_input = input_part(params, x, context, 2 * H)
    from_state = s @ params["U"]
    if "gain_U" in params:
        from_state = normalize_apart(from_state, params["gain_U"], 2 * H)
    reset = sigmoid(from_input[:H] + from_state[:H])
    update = sigmoid(from_input[H : 2 * H] + from_state[H : 2 * H])
    proposal = np.tanh(from_input[2 * H :] + reset * (from_state[2 * H :] + params["b_u"]))
    return (1.0 - update) * proposal + update * s


def lstm_step(params: Params, x, s, memory, context=None, forget_bias: float = 0.0):
    """The LSTM with a forget gate (Gers 2000; torch.nn.LSTM) -> state [H], memory [H]."""
    H = len(s)
    from_state = s @ params["U"]
    if "gain_U" in params:
        from_state = normalize(from_state, params["gain_U"])
    gates = input_part(params, x, context, 4 * H) + from_state
    input_gate = sigmoid(gates[:H])
    forget_gate = sigmoid(gates[H : 2 * H] + forget_bias)  # TensorFlow's BasicLSTMCell
    proposal, output_gate = np.tanh(gates[2 * H : 3 * H]), sigmoid(gates[3 * H :])
    memory = forget_gate * memory + input_gate * proposal
    read = memory
    if "gain_m" in params:
        read = normalize(memory, params["gain_m"]) + params["b_m"]
    return output_gate * np.tanh(read), memory


def cell_step(params: Params, config: ModelConfig, x, s, memory, context=None):
    """The configured cell -> state [H], memory [H] (a GRU hands the memory on)."""
    if config.cell == "lstm":
        return lstm_step(params, x, s, memory, context, config.forget_bias)
    step = gru_before_step if config.gru_reset == "before" else gru_after_step
    return step(params, x, s, context), memory
