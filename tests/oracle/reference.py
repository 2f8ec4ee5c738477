"""The oracle: the whole model in NumPy, float64, one sentence and one position at a time.

Written straight from the equations and independent of the package but for its configuration.
Only real positions are ever looked at, so padding can't matter. Parameters are nested
dictionaries: `encoder` / `forward_0` / `W`, with row vectors, y = x @ W. Letters in shapes: S real
source positions, T real target positions, C width of an annotation, H units, R readout units.
"""

import dataclasses

import numpy as np
from reference_cells import (  # noqa: F401  (the steps are a part of the oracle)
    Params,
    cell_step,
    gru_after_step,
    gru_before_step,
    lstm_step,
    normalize,
    sigmoid,
)
from reference_parameters import finite_difference, float64  # noqa: F401  (the same)

from bahdanau_jax.config import AttentionConfig, ModelConfig

BOS = 1


@dataclasses.dataclass
class DecoderState:
    """What a decoder step hands to the next one, for one sentence."""

    hidden: list[np.ndarray]  # s of each layer, [H]
    memory: list[np.ndarray]  # m of each layer, [H]; stays 0 in a GRU
    coverage: np.ndarray  # [S], sum of the alignments so far
    fed: np.ndarray  # c [C] or Luong's h~ [R] of the step before, as configured; 0 at the start


def recur(params: Params, config: ModelConfig, inputs: np.ndarray):
    """A recurrence over [S, I] from zeros (Bahdanau 2014, equation 1) -> [S, H], (s, memory)."""
    H = config.encoder.units
    states, s, memory = np.zeros((len(inputs), H)), np.zeros(H), np.zeros(H)
    for j in range(len(inputs)):
        s, memory = cell_step(params, config, inputs[j], s, memory)
        states[j] = s
    return states, (s, memory)


def annotate(params: Params, config: ModelConfig, source: np.ndarray):
    """Annotations h_j of one sentence's ids [S] (Bahdanau 2014, equation 7) -> [S, C].

    And each layer's last state (s, memory) of the forward direction, which Luong's and Toshniwal's
    code hands to the decoder's layer.
    """
    layers = []
    shared = config.tie_embeddings == "all"  # Press and Wolf 2017, three-way
    embedding = params["target_embedding" if shared else "source_embedding"]
    output = np.array([embedding[token] for token in source])
    output = output.reshape(len(source), config.embedding)
    if config.reverse_source:  # Sutskever 2014: the words' order, not the end mark's place
        output = np.concatenate([output[:-1][::-1], output[-1:]])
    for layer in range(config.encoder.layers):
        below = output
        output, last = recur(params["encoder"][f"forward_{layer}"], config, below)
        layers.append(last)
        if config.encoder.bidirectional:
            backward, _ = recur(params["encoder"][f"backward_{layer}"], config, below[::-1])
            output = np.concatenate([output, backward[::-1]], axis=1)
        if config.residual and layer > 0:
            output = output + below
    if config.reverse_source:  # the annotation of a word stands where the word is written
        output = np.concatenate([output[:-1][::-1], output[-1:]])
    return output, layers


def encode(params: Params, config: ModelConfig, source, source_mask) -> np.ndarray:
    """Annotations of a batch of ids [B, S], exactly 0 at padding -> [B, S, C]."""
    params = float64(params)
    width = config.encoder.units * (2 if config.encoder.bidirectional else 1)
    annotations = np.zeros((*np.shape(source), width))
    for row in range(len(source)):
        n = real_length(source_mask[row])
        annotations[row, :n], _ = annotate(params, config, np.asarray(source[row])[:n])
    return annotations


def last_states(params: Params, config: ModelConfig, source, source_mask):
    """The forward direction's last states of ids [B, S]: [B, H] and [B, H] of each layer."""
    params = float64(params)
    rows = [
        annotate(params, config, np.asarray(ids)[: real_length(mask)])[1]
        for ids, mask in zip(source, source_mask, strict=True)
    ]
    return [tuple(map(np.stack, zip(*layer, strict=True))) for layer in zip(*rows, strict=True)]


def real_length(mask) -> int:
    """Number of real positions in one row of a mask, which have to come first."""
    n = int(np.sum(mask))
    if not np.all(np.asarray(mask)[:n]):
        raise ValueError("the mask's real positions don't come first")
    return n


def final_state(config: ModelConfig, annotations: np.ndarray) -> np.ndarray:
    """Both directions' last states: [forward at the end ; backward at the start] -> [C].

    Reversed reading starts with the last word, before the end mark, which it ends with too.
    """
    if len(annotations) == 0:
        return np.zeros(annotations.shape[1])
    if not config.encoder.bidirectional:
        return annotations[-1]
    H = config.encoder.units
    start = max(len(annotations) - 2, 0) if config.reverse_source else 0
    return np.concatenate([annotations[-1, :H], annotations[start, H:]])


def initial_state(
    params: Params, config: ModelConfig, annotations: np.ndarray, encoder_states=()
) -> DecoderState:
    """The state before the first step: s_0 = tanh(W_s v) (Bahdanau 2014, A.2.2), or a copy."""
    layers, units = range(config.decoder.layers), config.decoder.units
    hidden = [np.zeros(units) for _ in layers]
    memory = [np.zeros(units) for _ in layers]
    if config.initial_state == "layers":
        hidden, memory = map(list, zip(*encoder_states, strict=True))
    elif config.initial_state != "zero":
        if config.initial_state == "backward":
            v = final_state(config, annotations)[config.encoder.units :]
        elif config.initial_state == "final":
            v = final_state(config, annotations)
        else:
            v = annotations.sum(axis=0) / max(len(annotations), 1)
        hidden = [np.tanh(v @ params["initial_state"][f"W_s_{layer}"]) for layer in layers]
    fed = np.zeros(annotations.shape[1] if config.feeding == "context" else config.readout_units)
    return DecoderState(hidden, memory, np.zeros(len(annotations)), fed)


def energy(params: Params, attention: AttentionConfig, query, annotation, past: float) -> float:
    """e_ij of one position (Bahdanau 2014, A.1.2; Luong 2015, 3.1); `past`: its coverage."""
    if attention.score == "uniform":
        return 0.0
    if attention.score in ("additive", "concat", "concat_identity"):
        if attention.score == "additive":
            left, right = query @ params["W_a"], annotation @ params["U_a"]
        elif attention.score == "concat":  # the parts of [q ; h] W_a, that on h_j behind the other
            zeros = np.zeros_like
            left = np.concatenate([query, zeros(annotation)]) @ params["W_a"]
            right = np.concatenate([zeros(query), annotation]) @ params["W_a"]
        else:  # Luong's own code: the part on h_j is the identity
            left, right = query @ params["W_a"], annotation
        if attention.normalize_keys:
            left, right = normalize(left, params["gain_q"]), normalize(right, params["gain_k"])
        inside = left + right
        if attention.bias:
            inside = inside + params["b"]
        if attention.coverage:  # See 2017, equation 11
            inside = inside + past * params["w_cov"]
        v = params["v_a"]
        if attention.normalize:  # Salimans and Kingma 2016, equation 2
            v = params["g"] * v / np.sqrt(np.sum(v**2))
        return float(v @ np.tanh(inside))
    if attention.score == "dot":
        left, right = query, annotation
    elif attention.score == "general":
        left, right = query @ params["W_a"], annotation
    elif attention.score == "projected":  # Britz 2017, the multiplicative score
        left, right = query @ params["W_a"], annotation @ params["U_a"]
    else:
        raise ValueError(f"no energy for score={attention.score}")
    if attention.bias:  # Britz 2017's code; its bias on the key adds the same to all positions
        left = left + params["b"]
    if attention.normalize_keys:  # Dehghani 2023, section 2
        left, right = normalize(left, params["gain_q"]), normalize(right, params["gain_k"])
    product = float(left @ right)
    if attention.scale == "sqrt":  # Vaswani 2017, equation 1
        product = product / np.sqrt(len(left))
    elif attention.scale == "linear":  # Yang 2022, definition 4.1
        product = product / len(left)
    elif attention.scale == "learned":
        product = float(params["scale"]) * product
    return product


def energies(params: Params, attention: AttentionConfig, query, annotations, coverage):
    """Energies e_i of all positions, coverage [S] -> [S] (Bahdanau 2014, equation 6)."""
    pairs = zip(annotations, coverage, strict=True)
    return np.array([energy(params, attention, query, h, past) for h, past in pairs])


def masked_softmax(values: np.ndarray, allowed) -> np.ndarray:
    """Softmax over allowed positions, 0 elsewhere (Bahdanau 2014, equation 6) -> [S]."""
    weights = np.zeros(len(values))
    if np.any(allowed):
        highest = max(values[j] for j in range(len(values)) if allowed[j])
        for j in range(len(values)):
            if allowed[j]:
                weights[j] = np.exp(values[j] - highest)
        weights = weights / weights.sum()
    return weights


def window_centre(params: Params, attention: AttentionConfig, query, step: int, S: int) -> float:
    """p_i of a local window: the step (local_m) or predicted (Luong 2015, equation 9)."""
    if attention.window == "local_m":
        return float(min(step, S - 1))
    return float(S * sigmoid(np.tanh(query @ params["W_p"]) @ params["v_p"]))


def align(params: Params, attention: AttentionConfig, query, annotations, step: int, coverage):
    """Alignment alpha_i, window included (Bahdanau 2014, eq. 6; Luong 2015, eq. 7, 10) -> [S]."""
    S = len(annotations)
    values = energies(params, attention, query, annotations, coverage)
    if attention.window == "global":
        return masked_softmax(values, [True] * S)
    centre = window_centre(params, attention, query, step, S)
    allowed = [abs(j - centre) <= attention.half_width for j in range(S)]
    weights = masked_softmax(values, allowed)
    if attention.window == "local_p":
        deviation = attention.half_width / 2
        for j in range(S):
            weights[j] = weights[j] * np.exp(-((j - centre) ** 2) / (2 * deviation**2))
        if attention.renormalize and S > 0:
            weights = weights / weights.sum()
    return weights


def context_vector(alignment: np.ndarray, annotations: np.ndarray) -> np.ndarray:
    """c_i, the sum of alpha_ij h_j (Bahdanau 2014, equation 5) -> [C]."""
    context = np.zeros(annotations.shape[1])
    for j in range(len(annotations)):
        context = context + alignment[j] * annotations[j]
    return context


def attend(params: Params, config: ModelConfig, query, annotations, step: int, coverage):
    """Alignment [S] and context [C] of one step; fixed: RNNencdec (Bahdanau 2014, 2.1)."""
    if config.attention.score == "fixed":
        one_hot = np.zeros(len(annotations))
        one_hot[-1:] = 1.0
        return one_hot, final_state(config, annotations)
    alignment = align(params, config.attention, query, annotations, step, coverage)
    return alignment, context_vector(alignment, annotations)


def maxout(params: Params, t, y, c) -> np.ndarray:
    """t_i of the deep output, pairs (k, k + R) (Bahdanau 2014, A.2.2) -> [R]."""
    both = t @ params["U_o"] + y @ params["V_o"] + c @ params["C_o"] + params["b_o"]
    R = len(both) // 2
    return np.array([max(both[k], both[k + R]) for k in range(R)])


def attentional_vector(W_c: np.ndarray, c, s) -> np.ndarray:
    """h~_i = tanh(W_c [c_i ; s_i]) (Luong 2015, equation 5) -> [R]."""
    return np.tanh(np.concatenate([c, s]) @ W_c)


def decoder_step(
    params: Params, config: ModelConfig, state: DecoderState, token: int, annotations, step: int
) -> tuple[DecoderState, np.ndarray, np.ndarray, np.ndarray]:
    """Step i after y_{i-1} -> state, logits, alpha_i, c_i (Bahdanau 2014, A.2.2; Luong 2015, 3)."""
    cells, query_moment = params["decoder"]["cell"], config.attention.query
    scorer = cells.get("attention", {})  # dot, uniform and fixed have no parameters
    y = params["target_embedding"][token]
    hidden, memory = list(state.hidden), list(state.memory)
    # The residual stands between the layers: what reads a state reads the top layer's output.
    previous_top = state.hidden[0]
    for layer in range(1, config.decoder.layers):
        below = previous_top if config.residual else 0.0
        previous_top = state.hidden[layer] + below

    def advance(name: str, layer: int, x, context=None) -> None:
        hidden[layer], memory[layer] = cell_step(
            cells[name], config, x, hidden[layer], memory[layer], context
        )

    def attend_with(query):
        return attend(scorer, config, query, annotations, step, state.coverage)

    def upper_layers() -> np.ndarray:
        output = hidden[0]
        for layer in range(1, config.decoder.layers):
            below = output
            advance(f"cell_{layer}", layer, below)
            output = hidden[layer] + below if config.residual else hidden[layer]
        return output

    if query_moment == "previous":
        alignment, context = attend_with(previous_top)
        advance("cell_0", 0, y, context)
        output = upper_layers()
    elif query_moment == "intermediate":
        advance("transition_0", 0, y)
        alignment, context = attend_with(hidden[0])
        advance("cell_0", 0, context)
        output = upper_layers()
    else:
        advance("cell_0", 0, y, state.fed if config.feeding != "none" else None)
        output = upper_layers()
        alignment, context = attend_with(output)

    fed = context if config.feeding == "context" else state.fed
    if config.readout == "maxout":
        t = previous_top if query_moment == "previous" else output
        readout = maxout(params["readout"], t, y, context)
    elif config.readout == "tanh":  # dl4mt; Britz 2017
        inside = output @ params["readout"]["U_o"] + params["readout"]["b_o"]
        if "word" in config.readout_parts:
            inside = inside + y @ params["readout"]["V_o"]
        if "context" in config.readout_parts:
            inside = inside + context @ params["readout"]["C_o"]
        readout = np.tanh(inside)
    elif config.readout == "attentional":
        readout = attentional_vector(cells["W_c"], context, output)
        fed = readout if config.feeding == "attentional" else fed
    else:
        readout = output
    tied = config.tie_embeddings != "none"
    W_o = params["target_embedding"].T if tied else params["readout"]["W_o"]
    logits = readout @ W_o + params["readout"]["b_w"]
    after = DecoderState(hidden, memory, state.coverage + alignment, fed)
    return after, logits, alignment, context


def decode_teacher_forced(
    params: Params, config: ModelConfig, source, source_mask, target, target_mask
) -> tuple[np.ndarray, np.ndarray]:
    """Logits [B, T, V] and alignments [B, T, S], 0 at padding (Bahdanau 2014, equation 4)."""
    params = float64(params)
    (B, S), T = np.shape(source), np.shape(target)[1]
    logits = np.zeros((B, T, len(params["target_embedding"])))
    alignments = np.zeros((B, T, S))
    for row in range(B):
        n = real_length(source_mask[row])
        annotations, last = annotate(params, config, np.asarray(source[row])[:n])
        state = initial_state(params, config, annotations, last)
        for i in range(real_length(target_mask[row])):
            token = BOS if i == 0 else int(target[row][i - 1])
            state, logits[row, i], alignments[row, i, :n], _ = decoder_step(
                params, config, state, token, annotations, i
            )
    return logits, alignments


def nll(logits, target, target_mask, label_smoothing: float = 0.0) -> float:
    """-log p(y_i) summed over real tokens, in nats, smoothed or not (Szegedy 2016, section 7)."""
    total = 0.0
    for row in range(len(target)):
        for i in range(real_length(target_mask[row])):
            values = np.asarray(logits[row][i], dtype=np.float64)
            highest = values.max()
            log_p = values - highest - np.log(np.exp(values - highest).sum())
            total += -(1.0 - label_smoothing) * log_p[int(target[row][i])]
            total += -label_smoothing * log_p.mean()
    return float(total)
