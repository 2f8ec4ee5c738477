"""Beam search in PyTorch over RNNsearch's parameters, as someone who wants speed would write it.

The same function and the same search as `bahdanau_jax.beam`: additive score, query = previous,
maxout readout, a GRU in either form. Keys once a sentence and not copied for its hypotheses, one
product for all that reads the state, hypotheses reordered by `index_select`, one `topk` a step,
sentences that are done leave the batch.
"""

# pyright: reportMissingImports=false
# torch is no dependency of the package: without it, this file is neither run nor checked.

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bahdanau_jax.config import DecodeConfig, ModelConfig

PAD, BOS, EOS = 0, 1, 2


class Found(NamedTuple):
    """The best hypothesis of a sentence."""

    tokens: list[int]  # end mark included
    log_p: float
    score: float


class Decoder:
    """The parameters, laid out for decoding."""

    def __init__(self, config: ModelConfig, params: dict[str, Any]):
        """Takes the parameters of `bahdanau_jax.model.seq2seq.Seq2Seq`."""
        check_supported(config)
        self.before = config.gru_reset == "before"
        self.units = H = config.decoder.units
        arrays = _tensors(params)
        cell = arrays["decoder"]["attention_cell"]
        gates, score, readout = cell["cell_0"], cell["attention"]["score"], arrays["readout"]
        self.source_embedding = arrays["source_embedding"]
        self.target_embedding = arrays["target_embedding"]
        self.encoder = arrays["encoder"]
        self.W_s, self.U_a, self.v_a = arrays["decoder"]["W_s_0"], score["U_a"], score["v_a"]
        inside = gates["U"] if not self.before else gates["U"][:, : 2 * H]
        self.of_state = torch.cat([score["W_a"], readout["U_o"], inside], 1).contiguous()
        self.of_word = torch.cat([readout["V_o"], gates["W"]], 1).contiguous()
        self.word_bias = torch.cat([readout["b_o"], gates["b"]])
        self.of_context = torch.cat([readout["C_o"], gates["C"]], 1).contiguous()
        self.U_proposal = gates["U"][:, 2 * H :].contiguous()
        self.b_u = gates.get("b_u")
        self.sizes = [score["W_a"].shape[1], readout["U_o"].shape[1], inside.shape[1]]
        self.W_o, self.b_w = arrays["W_o"], arrays["b_w"]
        self.gru = None if self.before else _packed_gru(config, self.encoder)

    def encode(self, source: Tensor) -> tuple[Tensor, Tensor]:
        """Ids [B, S] -> annotations [B, S, 2H], the backward direction's last state [B, H]."""
        embedded, mask = self.source_embedding[source], source != PAD
        if self.gru is not None:
            packed = pack_padded_sequence(
                embedded, mask.sum(1), batch_first=True, enforce_sorted=False
            )
            output, final = self.gru(packed)
            padded, _ = pad_packed_sequence(output, batch_first=True, total_length=source.shape[1])
            return padded, final[1]
        states = []
        for name, order in (("forward_0", 1), ("backward_0", -1)):
            part = self.encoder[name]
            H = part["U"].shape[0]
            inputs, state = embedded @ part["W"] + part["b"], embedded.new_zeros(len(source), H)
            steps: list[Tensor] = [state] * source.shape[1]
            for i in range(source.shape[1])[::order]:
                gates = torch.sigmoid(inputs[:, i, : 2 * H] + state @ part["U"][:, : 2 * H])
                reset, update = gates.chunk(2, -1)
                proposal = inputs[:, i, 2 * H :] + (reset * state) @ part["U"][:, 2 * H :]
                new = torch.lerp(state, torch.tanh(proposal), update)
                state = torch.where(mask[:, i, None], new, state)
                steps[i] = state
            states.append(torch.stack(steps, 1))
        annotations = torch.cat(states, -1) * mask[..., None]
        return annotations, annotations[:, 0, annotations.shape[-1] // 2 :]

    def step(
        self, state: Tensor, word: Tensor, keys: Tensor, annotations: Tensor, lowest: Tensor
    ) -> tuple[Tensor, Tensor]:
        """States [B, K, H], words [B, K] -> states, and logits [B, K, V]."""
        H = self.units
        query, of_state, recurrent = (state @ self.of_state).split(self.sizes, -1)
        energies = torch.tanh(query[:, :, None] + keys[:, None]) @ self.v_a
        alignment = (energies + lowest[:, None]).softmax(-1)
        context = torch.bmm(alignment, annotations)
        read = functional.embedding(word, self.target_embedding) @ self.of_word
        read += self.word_bias
        read += context @ self.of_context
        proposal, inputs = read.split([of_state.shape[-1], 3 * H], -1)
        first, second = (proposal + of_state).chunk(2, -1)
        logits = torch.maximum(first, second) @ self.W_o + self.b_w
        reset, update = torch.sigmoid(inputs[..., : 2 * H] + recurrent[..., : 2 * H]).chunk(2, -1)
        if self.before:
            new = torch.tanh(inputs[..., 2 * H :] + (reset * state) @ self.U_proposal)
            return torch.lerp(state, new, update), logits
        new = torch.tanh(inputs[..., 2 * H :] + reset * (recurrent[..., 2 * H :] + self.b_u))
        return torch.lerp(new, state, update), logits

    @torch.inference_mode()
    def search(self, source: np.ndarray, limits: np.ndarray, config: DecodeConfig) -> list[Found]:
        """Finds the best hypothesis of each sentence; a place that has ended stays in its beam."""
        batch, K = len(source), config.beam_size
        ids = torch.from_numpy(source).long()
        annotations, final = self.encode(ids)
        keys = annotations @ self.U_a
        lowest = torch.zeros(ids.shape).masked_fill_(ids == PAD, float("-inf"))
        state = torch.tanh(final @ self.W_s)[:, None].repeat(1, K, 1)
        limit = torch.from_numpy(limits).long()
        numbers = torch.arange(batch)
        log_p = torch.full((batch, K), float("-inf"))
        log_p[:, 0] = 0.0
        ended = torch.zeros(batch, K, dtype=torch.bool)
        lengths = torch.zeros(batch, K, dtype=torch.long)
        words = torch.full((batch, K), BOS)
        tokens = torch.zeros(batch, K, int(limits.max()), dtype=torch.long)
        found: list[Found | None] = [None] * batch
        for step in range(int(limits.max())):
            state, logits = self.step(state, words, keys, annotations, lowest)
            reached = torch.log_softmax(logits, -1)
            reached[..., : BOS + 1] = float("-inf")
            reached += log_p[..., None]
            reached.masked_fill_(ended[..., None], float("-inf"))
            size = reached.shape[-1]
            values, places = reached.view(len(reached), -1).topk(K)
            # The r-th free place receives the r-th best.
            rank = ((~ended).cumsum(1) - 1).clamp_(min=0)
            values, places = values.gather(1, rank), places.gather(1, rank)
            here = torch.arange(K).expand_as(places)
            parents = torch.where(ended, here, places // size)
            words = torch.where(ended, PAD, places % size)
            log_p = torch.where(ended, log_p, values)
            flat = (torch.arange(len(parents))[:, None] * K + parents).view(-1)
            state = state.view(-1, self.units).index_select(0, flat).view_as(state)
            tokens = tokens.view(-1, tokens.shape[-1]).index_select(0, flat).view_as(tokens)
            tokens[:, :, step] = words
            lengths += words != PAD
            ended = ended | (words == EOS)
            scores = log_p / _penalty(config, lengths)
            best = scores.masked_fill(~ended, float("-inf")).amax(1)
            possible = log_p / _penalty(config, limit)[:, None]
            possible = possible.masked_fill(ended, float("-inf")).amax(1)
            done = (possible <= best) | (step + 1 >= limit)
            if not done.any():
                continue
            # Hypotheses that ended come before those that were cut off at the limit.
            ranks = torch.where(ended, scores, scores - 1e9)
            for row in done.nonzero()[:, 0].tolist():
                place = int(ranks[row].argmax())
                made = tokens[row, place, : int(lengths[row, place])].tolist()
                found[int(numbers[row])] = Found(
                    made, float(log_p[row, place]), float(scores[row, place])
                )
            left = (~done).nonzero()[:, 0]
            if not len(left):
                break
            numbers, limit, log_p, ended, lengths, words, tokens, state = (
                each.index_select(0, left)
                for each in (numbers, limit, log_p, ended, lengths, words, tokens, state)
            )
            keys, annotations, lowest = (
                each.index_select(0, left) for each in (keys, annotations, lowest)
            )
        return [each for each in found if each is not None]


def check_supported(config: ModelConfig) -> None:
    """Raises ValueError for a model that isn't written here."""
    form = (
        config.cell,
        config.attention.score,
        config.attention.query,
        config.attention.window,
        config.readout,
        config.initial_state,
        config.encoder.layers,
        config.decoder.layers,
        config.layer_norm,
        config.tie_embeddings,
        config.reverse_source,
    )
    plain = ("gru", "additive", "previous", "global", "maxout", "backward", 1, 1)
    plain += ("none", "none", False)
    attention = config.attention
    if form != plain or attention.normalize or attention.normalize_keys or attention.bias:
        raise ValueError(f"only RNNsearch is written in PyTorch here, not {form}")


def _penalty(config: DecodeConfig, lengths: Tensor) -> Tensor:
    match config.length_penalty:
        case "average":
            return lengths.float()
        case "gnmt":
            return ((5 + lengths) / 6) ** config.length_penalty_alpha
        case _:
            return torch.ones(lengths.shape)


def _tensors(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {name: _tensors(part) for name, part in tree.items()}
    return torch.from_numpy(np.array(tree))


def _packed_gru(config: ModelConfig, params: dict[str, Any]) -> nn.GRU:
    gru = nn.GRU(config.embedding, config.encoder.units, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for name, suffix in (("forward_0", ""), ("backward_0", "_reverse")):
            part = params[name]
            inside = torch.zeros_like(part["b"])
            inside[-len(part["b_u"]) :] = part["b_u"]
            parts = {"weight_ih": part["W"].T, "weight_hh": part["U"].T, "bias_ih": part["b"]}
            for key, values in (parts | {"bias_hh": inside}).items():
                getattr(gru, f"{key}_l0{suffix}").copy_(values)
    return gru
