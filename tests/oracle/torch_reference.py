"""The first seed model in PyTorch: the other side of parity tests on outputs, losses, gradients.

Additive attention without biases over a bidirectional encoder; the decoder is a GRU cell (reset
after the product) on [embedding of y_{i-1} ; c_i], c_i from the state before; logits = W_o s_i + b.
Import it only where torch is installed. `load` takes our parameters, `gradients` gives them back;
our single bias b is PyTorch's b_ih, our b_u the proposal's part of b_hh, the rest of b_hh is 0.
"""

# pyright: reportMissingImports=false
# torch is no dependency of the package: without it, this file is neither run nor checked.

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from bahdanau_jax.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig

BOS = 1
Params = dict[str, Any]


def seed_form(embedding: int, encoder: int, decoder: int, attention: int) -> ModelConfig:
    """Returns the configuration that `Seq2Seq` computes; sizes of embedding and units."""
    return ModelConfig(
        cell="gru",
        gru_reset="after",
        embedding=embedding,
        encoder=EncoderConfig(units=encoder, layers=1, bidirectional=True),
        decoder=DecoderConfig(units=decoder, layers=1),
        attention=AttentionConfig(score="additive", units=attention, query="previous"),
        initial_state="backward",
        readout="linear",
    )


class AdditiveAttention(nn.Module):
    """e_ij = v_a . tanh(W_a q_i + U_a h_j) (Bahdanau 2014, A.1.2), no biases."""

    def __init__(self, query_size: int, annotation_size: int, units: int):
        super().__init__()
        self.W_a = nn.Linear(query_size, units, bias=False)
        self.U_a = nn.Linear(annotation_size, units, bias=False)
        self.v_a = nn.Linear(units, 1, bias=False)

    def forward(self, query: Tensor, annotations: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Query [B, H], annotations [B, S, C], mask [B, S] -> context [B, C], alignment [B, S]."""
        energies = self.v_a(torch.tanh(self.W_a(query)[:, None] + self.U_a(annotations)))[..., 0]
        alignment = energies.masked_fill(~mask, float("-inf")).softmax(dim=-1)
        return torch.einsum("bs,bsc->bc", alignment, annotations), alignment

    def load(self, params: Params) -> None:
        """Takes W_a [H, A], U_a [C, A], v_a [A]."""
        copy(self.W_a.weight, np.transpose(params["W_a"]))
        copy(self.U_a.weight, np.transpose(params["U_a"]))
        copy(self.v_a.weight, np.asarray(params["v_a"])[None])

    def gradients(self) -> Params:
        """Gradients under our names."""
        return {
            "W_a": gradient(self.W_a.weight).T,
            "U_a": gradient(self.U_a.weight).T,
            "v_a": gradient(self.v_a.weight)[0],
        }


class Encoder(nn.Module):
    """Stacked bidirectional nn.GRU or nn.LSTM over the real tokens only (packed)."""

    def __init__(self, embedding: int, units: int, layers: int = 1, cell: str = "gru"):
        super().__init__()
        kind = {"gru": nn.GRU, "lstm": nn.LSTM}[cell]
        self.recurrence = kind(embedding, units, layers, batch_first=True, bidirectional=True)

    def forward(self, embedded: Tensor, mask: Tensor) -> Tensor:
        """Embedded source [B, S, E], mask [B, S] -> annotations [B, S, 2H], 0 at padding."""
        output, _ = self.recurrence(self.packed(embedded, mask))
        return pad_packed_sequence(output, batch_first=True, total_length=mask.shape[1])[0]

    def forward_states(self, embedded: Tensor, mask: Tensor) -> list[tuple[Tensor, ...]]:
        """The forward direction's last state of each layer, [B, H]; an LSTM's memory with it."""
        _, last = self.recurrence(self.packed(embedded, mask))
        members = last if isinstance(last, tuple) else (last,)
        return [tuple(x[2 * layer] for x in members) for layer in range(self.recurrence.num_layers)]

    @staticmethod
    def packed(embedded: Tensor, mask: Tensor):
        """The real tokens' vectors, as PyTorch's recurrences read them."""
        lengths = mask.sum(dim=1).cpu()
        return pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)

    def parts(self) -> dict[str, tuple[Tensor, ...]]:
        """W_ih, W_hh, b_ih, b_hh of each direction and layer, under our cells' names."""
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        return {
            f"{direction}_{layer}": tuple(
                getattr(self.recurrence, f"{name}_l{layer}{suffix}") for name in names
            )
            for layer in range(self.recurrence.num_layers)
            for direction, suffix in (("forward", ""), ("backward", "_reverse"))
        }

    def load(self, params: Params) -> None:
        """Takes the cells forward_0, backward_0, forward_1 and so on."""
        for name, parts in self.parts().items():
            load_cell(parts, params[name])

    def gradients(self) -> Params:
        """Gradients under our names."""
        return {name: cell_gradients(parts) for name, parts in self.parts().items()}


class Decoder(nn.Module):
    """One step: c_i from s_{i-1}; s_i = GRU([E y_{i-1} ; c_i], s_{i-1}); logits from s_i."""

    def __init__(
        self, vocabulary: int, embedding: int, units: int, annotation: int, attention: int
    ):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding)
        self.attention = AdditiveAttention(units, annotation, attention)
        self.cell = nn.GRUCell(embedding + annotation, units)
        self.W_o = nn.Linear(units, vocabulary)

    def forward(self, token: Tensor, state: Tensor, annotations: Tensor, mask: Tensor):
        """Tokens [B], states [B, H] -> logits [B, V], states [B, H], alignment [B, S]."""
        context, alignment = self.attention(state, annotations, mask)
        state = self.cell(torch.cat([self.embedding(token), context], dim=-1), state)
        return self.W_o(state), state, alignment

    def parts(self) -> tuple[Tensor, ...]:
        """W_ih, W_hh, b_ih, b_hh of the cell."""
        cell = self.cell
        return cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh


class Seq2Seq(nn.Module):
    """The whole model, with s_0 = tanh(W_s <-h_1), in the sizes of a `seed_form` configuration."""

    def __init__(self, config: ModelConfig, source_size: int, target_size: int):
        super().__init__()
        E, units, H = config.embedding, config.encoder.units, config.decoder.units
        self.units = units
        self.source_embedding = nn.Embedding(source_size, E)
        self.encoder = Encoder(E, units)
        self.W_s = nn.Linear(units, H, bias=False)
        self.decoder = Decoder(target_size, E, H, 2 * units, config.attention.units)

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor):
        """Ids [B, S] and [B, T], teacher forced -> logits [B, T, V], alignments [B, T, S]."""
        annotations = self.encoder(self.source_embedding(source), source_mask)
        state = torch.tanh(self.W_s(annotations[:, 0, self.units :]))
        token = torch.full_like(target[:, 0], BOS)
        logits, alignments = [], []
        for i in range(target.shape[1]):
            step_logits, state, alignment = self.decoder(token, state, annotations, source_mask)
            logits.append(step_logits)
            alignments.append(alignment)
            token = target[:, i]
        return torch.stack(logits, dim=1), torch.stack(alignments, dim=1)

    def loss(self, source: Tensor, source_mask: Tensor, target: Tensor, target_mask: Tensor):
        """Cross-entropy in nats, summed over the real target tokens -> scalar."""
        logits, _ = self(source, source_mask, target)
        return nn.functional.cross_entropy(
            logits[target_mask], target[target_mask], reduction="sum"
        )

    def load(self, params: Params) -> None:
        """Takes the whole model's parameters, in our nesting."""
        cell = params["decoder"]["cell"]
        copy(self.source_embedding.weight, params["source_embedding"])
        copy(self.decoder.embedding.weight, params["target_embedding"])
        copy(self.W_s.weight, np.transpose(params["initial_state"]["W_s_0"]))
        copy(self.decoder.W_o.weight, np.transpose(params["readout"]["W_o"]))
        copy(self.decoder.W_o.bias, params["readout"]["b_w"])
        self.encoder.load(params["encoder"])
        self.decoder.attention.load(cell["attention"])
        load_cell(self.decoder.parts(), cell["cell_0"])

    def gradients(self) -> Params:
        """Every parameter's gradient after `backward()`, in our nesting, as NumPy arrays."""
        return {
            "source_embedding": gradient(self.source_embedding.weight),
            "target_embedding": gradient(self.decoder.embedding.weight),
            "encoder": self.encoder.gradients(),
            "initial_state": {"W_s_0": gradient(self.W_s.weight).T},
            "decoder": {
                "cell": {
                    "attention": self.decoder.attention.gradients(),
                    "cell_0": cell_gradients(
                        self.decoder.parts(), self.decoder.embedding.embedding_dim
                    ),
                }
            },
            "readout": {
                "W_o": gradient(self.decoder.W_o.weight).T,
                "b_w": gradient(self.decoder.W_o.bias),
            },
        }


def copy(parameter: Tensor, value: Any) -> None:
    """Sets a parameter, in its own precision; the shapes must be equal."""
    array = np.array(value)
    if array.shape != tuple(parameter.shape):
        raise ValueError(f"shape {array.shape} where PyTorch has {tuple(parameter.shape)}")
    with torch.no_grad():
        parameter.copy_(torch.from_numpy(array))


def gradient(parameter: Tensor) -> np.ndarray:
    """Returns a parameter's gradient, which `backward()` must have written."""
    if parameter.grad is None:
        raise ValueError("a parameter has no gradient: call backward() first")
    return parameter.grad.detach().cpu().numpy().copy()


def load_cell(parts: tuple[Tensor, ...], params: Params) -> None:
    """Sets a GRU's or LSTM's W_ih, W_hh, b_ih, b_hh from W, U, b [, C] [, b_u].

    Gates have the same order on both sides: reset, update, proposal (r, z, n) and input, forget,
    proposal, output (i, f, g, o). A context input C follows the columns of W.
    """
    weight_ih, weight_hh, bias_ih, bias_hh = parts
    W = np.asarray(params["W"])
    if "C" in params:
        W = np.concatenate([W, np.asarray(params["C"])])
    recurrent_bias = np.zeros(tuple(bias_hh.shape))
    if "b_u" in params:
        H = weight_hh.shape[1]
        recurrent_bias[2 * H :] = params["b_u"]
    copy(weight_ih, W.T)
    copy(weight_hh, np.transpose(params["U"]))
    copy(bias_ih, params["b"])
    copy(bias_hh, recurrent_bias)


def cell_gradients(parts: tuple[Tensor, ...], inputs: int | None = None) -> Params:
    """Gradients of W, U, b [, C] [, b_u]; the context starts behind `inputs` columns."""
    weight_ih, weight_hh, bias_ih, bias_hh = parts
    from_inputs = gradient(weight_ih).T
    result = {"W": from_inputs, "U": gradient(weight_hh).T, "b": gradient(bias_ih)}
    if inputs is not None:
        result |= {"W": from_inputs[:inputs], "C": from_inputs[inputs:]}
    H = weight_hh.shape[1]
    if weight_hh.shape[0] == 3 * H:
        result["b_u"] = gradient(bias_hh)[2 * H :]
    return result
