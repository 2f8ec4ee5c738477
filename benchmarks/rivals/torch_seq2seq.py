"""RNNsearch in PyTorch, as someone who wants speed from it would write it.

The same function as `bahdanau_jax.model.seq2seq.Seq2Seq` with `gru_reset=after`, a query that is
`previous` or `intermediate`, `readout=maxout` and `initial_state=backward`; `load` takes its
parameters. cuDNN's form of the GRU, because `nn.GRU` computes no other. Keys, the words' part of
the gates, readout and output layer are computed for all steps at once; only what depends on the
state before is in the loop.
"""

# pyright: reportMissingImports=false
# torch is no dependency of the package: without it, this file is neither run nor checked.

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bahdanau_jax.config import Config, ModelConfig

PAD, BOS = 0, 1
SCORES = ("additive", "dot", "general", "projected", "uniform")


class Transition(nn.Module):
    """What a GRU adds to its inputs' part of the gates."""

    def __init__(self, units: int):
        super().__init__()
        self.U = nn.Linear(units, 3 * units, bias=False)
        self.b_u = nn.Parameter(torch.zeros(units))

    def forward(self, inputs: Tensor, state: Tensor) -> Tensor:
        """The inputs' part of the gates [B, 3H] and the state before [B, H] -> the state [B, H]."""
        H = state.shape[1]
        recurrent = self.U(state)
        reset, update = torch.sigmoid(inputs[:, : 2 * H] + recurrent[:, : 2 * H]).chunk(2, -1)
        proposal = torch.tanh(inputs[:, 2 * H :] + reset * (recurrent[:, 2 * H :] + self.b_u))
        return torch.lerp(proposal, state, update)


class Seq2Seq(nn.Module):
    """Encoder, alignment model (one of SCORES), decoder, readout, output layer."""

    def __init__(self, config: ModelConfig, source_size: int, target_size: int):
        super().__init__()
        E, H, R = config.embedding, config.decoder.units, config.readout_units
        units, A = config.encoder.units, config.attention.units
        C = 2 * units
        self.score = config.attention.score
        self.source_embedding = nn.Embedding(source_size, E)
        self.target_embedding = nn.Embedding(target_size, E)
        self.encoder = nn.GRU(E, units, batch_first=True, bidirectional=True)
        self.W_s = nn.Linear(units, H, bias=False)
        if self.score == "general":
            self.W_a = nn.Linear(H, C, bias=False)
        if self.score in ("additive", "projected"):
            self.W_a = nn.Linear(H, A, bias=False)
            self.U_a = nn.Linear(C, A, bias=False)
        if self.score == "additive":
            self.v_a = nn.Parameter(torch.empty(A).normal_(0, A**-0.5))
        self.W = nn.Linear(E, 3 * H)
        # Conditional GRU: a transition by the word, the query, a transition by the context.
        self.first = Transition(H) if config.attention.query == "intermediate" else None
        self.C = nn.Linear(C, 3 * H, bias=self.first is not None)
        self.last = Transition(H)
        self.readout = nn.Linear(H + E + C, 2 * R)
        self.W_o = nn.Linear(R, target_size)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Ids [B, S] and [B, T] -> logits of the real target tokens, [N, V]."""
        mask = source != PAD
        packed = pack_padded_sequence(
            self.source_embedding(source), mask.sum(1), batch_first=True, enforce_sorted=False
        )
        output, final = self.encoder(packed)
        annotations, _ = pad_packed_sequence(output, batch_first=True, total_length=source.shape[1])
        keys = self.U_a(annotations) if hasattr(self, "U_a") else annotations
        lowest = torch.zeros(mask.shape).masked_fill(~mask, float("-inf"))
        state = torch.tanh(self.W_s(final[1]))
        previous = functional.pad(target[:, :-1], (1, 0), value=BOS)
        embedded = self.target_embedding(previous)
        states, contexts = [], []
        for inputs in self.W(embedded).unbind(1):
            before = state
            if self.first is not None:
                state = self.first(inputs, state)
            alignment = (self.energies(state, keys) + lowest).softmax(-1)
            context = torch.bmm(alignment[:, None], annotations)[:, 0]
            contexts.append(context)
            gates = self.C(context) if self.first is not None else inputs + self.C(context)
            state = self.last(gates, state)
            # The readout of the paper reads s_{i-1}, the conditional GRU's s_i.
            states.append(before if self.first is None else state)
        read = torch.cat([torch.stack(states, 1), embedded, torch.stack(contexts, 1)], -1)
        first, second = self.readout(read[target != PAD]).chunk(2, -1)
        return self.W_o(torch.maximum(first, second))

    def energies(self, state: Tensor, keys: Tensor) -> Tensor:
        """State [B, H] and keys [B, S, A] -> e_ij, [B, S]."""
        if self.score == "uniform":
            return keys.new_zeros(keys.shape[:2])
        query = self.W_a(state) if hasattr(self, "W_a") else state
        if self.score == "additive":
            return torch.tanh(query[:, None] + keys) @ self.v_a
        return torch.bmm(keys, query[:, :, None])[:, :, 0]

    def load(self, params: dict[str, Any]) -> None:
        """Takes the parameters of `seq2seq.Seq2Seq`, with the score that they have."""
        cell = params["decoder"]["attention_cell"]
        gates, readout = cell["cell_0"], params["readout"]
        into = {
            self.source_embedding.weight: params["source_embedding"],
            self.target_embedding.weight: params["target_embedding"],
            self.W_s.weight: params["decoder"]["W_s_0"].T,
            self.last.U.weight: gates["U"].T,
            self.last.b_u: gates["b_u"],
            self.readout.weight: np.concatenate([readout[n] for n in ("U_o", "V_o", "C_o")]).T,
            self.readout.bias: readout["b_o"],
            self.W_o.weight: params["W_o"].T,
            self.W_o.bias: params["b_w"],
        }
        by_word = gates
        if self.first is None:
            into[self.C.weight] = gates["C"].T
        else:
            by_word = cell["transition"]
            into |= {self.C.weight: gates["W"].T, self.C.bias: gates["b"]}
            into |= {self.first.U.weight: by_word["U"].T, self.first.b_u: by_word["b_u"]}
        into |= {self.W.weight: by_word["W"].T, self.W.bias: by_word["b"]}
        score = cell["attention"].get("score", {})
        for name, values in score.items():
            parameter = getattr(self, name)
            into[parameter if name == "v_a" else parameter.weight] = values.T
        for name, suffix in (("forward_0", ""), ("backward_0", "_reverse")):
            part = params["encoder"][name]
            inside = np.zeros_like(part["b"])
            inside[-len(part["b_u"]) :] = part["b_u"]
            for key, values in (
                ("weight_ih", part["W"].T),
                ("weight_hh", part["U"].T),
                ("bias_ih", part["b"]),
                ("bias_hh", inside),
            ):
                into[getattr(self.encoder, f"{key}_l0{suffix}")] = values
        with torch.no_grad():
            for parameter, values in into.items():
                parameter.copy_(torch.from_numpy(np.array(values)))


class Training:
    """The model with fused Adam and clipping: one call is one step."""

    def __init__(self, config: Config, source_size: int, target_size: int):
        self.model = Seq2Seq(config.model, source_size, target_size)
        self.clip_norm = config.train.clip_norm
        rate = config.train.learning_rate
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=rate, fused=True)

    def step(self, source: np.ndarray, target: np.ndarray) -> float:
        """Takes a step on ids [B, S] and [B, T]; returns the mean loss in nats."""
        into, wanted = torch.from_numpy(source).long(), torch.from_numpy(target).long()
        self.optimizer.zero_grad(set_to_none=True)
        loss = functional.cross_entropy(self.model(into, wanted), wanted[wanted != PAD])
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip_norm)
        self.optimizer.step()
        return loss.item()
