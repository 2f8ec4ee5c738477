"""The decoder: a recurrence over target words in which every step attends, and its readout.

Bahdanau et al. 2014, section 3.1 and appendix A.2.2; Luong et al. 2015, section 3. The moment of
the query says which: previous (Bahdanau), intermediate (conditional GRU), current (Luong).
"""

import functools
from typing import Any, NamedTuple

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import equations, kernels
from bahdanau_jax.model.attention import Attention, Memory
from bahdanau_jax.model.cells import CellState, GRUAfter, RecurrentCell, make_cell
from bahdanau_jax.model.dropout import Noise, Place, dropout, is_off, state_factors
from bahdanau_jax.model.initialization import initialization
from bahdanau_jax.model.kernels import decoder_loop
from bahdanau_jax.model.scores import score_class


class DecoderState(NamedTuple):
    """What one step hands to the next."""

    cells: tuple[CellState, ...]  # s_i of each layer, the lowest first
    step: Array  # i, int32[]
    coverage: Array | None  # Σ_{k<i} α_kj, float32[B, S], where the score reads it
    fed: Array | None  # c_{i-1}, float32[B, C], or h̃_{i-1}, float32[B, R], by `feeding`


class StepOutput(NamedTuple):
    """What one step hands to the readout and to the reader of alignments."""

    state: Array  # s_{i-1} or s_i: the one that the readout reads, float32[B, H]
    context: Array  # c_i, float32[B, C]
    alignment: Array  # α_ij, float32[B, S]
    attentional: Array | None  # h̃_i, float32[B, R], where it is fed to the next step


class Kept(NamedTuple):
    """What dropout inside the decoder multiplies by: 0 or 1 / (1 - rate); None drops nothing."""

    layers: tuple[Array | None, ...]  # what each upper layer reads, float32[B, H] of each step
    states: tuple[Array | None, ...]  # what each layer's recurrence reads of its state
    transition: Array | None  # the same of the cell that reads the word, where there is one


class AttentionCell(nn.Module):
    """One step of the decoder.

    Attributes:
      config: the model's configuration.
    """

    config: ModelConfig

    def setup(self):
        """Declares the alignment model, the cells of all layers, and W_c."""
        config = self.config
        units, context = config.decoder.units, config.annotation_units
        init = initialization(config.initialization)
        self.attention = Attention(config.attention, units, context, init, config.kernels)
        make = functools.partial(make_cell, config, "decoder", units)
        match config.attention.query:
            case "previous":
                lowest = make(config.embedding, context=context)
            case "intermediate":
                self.transition = make(config.embedding)
                lowest = make(context)
            case _:
                lowest = make(config.embedding, context=config.fed_units)
        self.cell = [lowest, *(make(units) for _ in range(config.decoder.layers - 1))]
        if config.readout == "attentional":
            rows = context + units
            self.W_c = self.param("W_c", init.kernel, (rows, config.readout_units))

    def project(self, embedded: Array) -> Array:
        """Returns the previous words' part of the lowest cell's gates, for all steps at once.

        Args:
          embedded: E y_{i-1}, `float32[..., E]`.
        """
        reader = self.transition if self.config.attention.query == "intermediate" else self.cell[0]
        return reader.project(embedded)

    def attentional(self, context: Array, state: Array) -> Array:
        """Returns h̃_i = tanh(W_c [c_i ; s_i]) (Luong et al. 2015, Equation 5)."""
        return equations.attentional_vector(jnp.concatenate([context, state], axis=-1) @ self.W_c)

    def __call__(
        self, state: DecoderState, projected: Array, memory: Memory, kept: Kept | None = None
    ) -> tuple[DecoderState, StepOutput]:
        """Takes one step.

        Args:
          state: what the step before left.
          projected: what `project` returned for y_{i-1}, `float32[B, gates * H]`.
          memory: the source sentences.
          kept: dropout's factors; None for no dropout.

        Returns:
          The state after the step, and what the readout needs.
        """
        config = self.config
        before = self._output(state.cells)  # s_{i-1}
        match config.attention.query:
            case "previous":  # c_i from s_{i-1}; then s_i = f(s_{i-1}, y_{i-1}, c_i)
                context, alignment = self._attend(before, memory, state)
                cells = self._layers(state.cells, projected, context, kept)
            case "intermediate":  # s'_i = f_1(s_{i-1}, y_{i-1}); c_i from it; s_i = f_2(s'_i, c_i)
                factor = None if kept is None else kept.transition
                between = self.transition(state.cells[0], projected, None, factor)
                context, alignment = self._attend(between[0], memory, state)
                gates = self.cell[0].project(context)
                cells = self._layers((between, *state.cells[1:]), gates, None, kept)
            case _:  # s_i = f(s_{i-1}, [y_{i-1} ; c_{i-1} or h̃_{i-1}]); c_i from s_i
                cells = self._layers(state.cells, projected, state.fed, kept)
                context, alignment = self._attend(self._output(cells), memory, state)
        top = self._output(cells)  # s_i
        attentional = self.attentional(context, top) if config.feeding == "attentional" else None
        fed = context if config.feeding == "context" else attentional
        coverage = None if state.coverage is None else state.coverage + alignment
        paper = config.attention.query == "previous" and config.readout == "maxout"
        output = StepOutput(before if paper else top, context, alignment, attentional)
        return DecoderState(cells, state.step + 1, coverage, fed), output

    def _attend(self, query: Array, memory: Memory, state: DecoderState) -> tuple[Array, Array]:
        return self.attention(query, memory, state.step, state.coverage)

    def _layers(
        self,
        states: tuple[CellState, ...],
        projected: Array,
        context: Array | None,
        kept: Kept | None,
    ) -> tuple[CellState, ...]:
        """Steps every layer, the lowest first; each reads the output of those below."""
        if kept is None:
            kept = Kept((None,) * (len(states) - 1), (None,) * len(states), None)
        new = (self.cell[0](states[0], projected, context, kept.states[0]),)
        for layer, cell in enumerate(self.cell[1:], 1):
            read, factor = self._output(new), kept.layers[layer - 1]
            read = read if factor is None else read * factor
            new += (cell(states[layer], cell.project(read), None, kept.states[layer]),)
        return new

    def _output(self, cells: tuple[CellState, ...]) -> Array:
        """Returns what these layers hand on, the top one's state; with residuals, their sum."""
        output = cells[0][0]
        for hidden, *_ in cells[1:]:
            output = output + hidden if self.config.residual else hidden
        return output


class Decoder(nn.Module):
    """The cell, scanned over the target words, and its initial state.

    Attributes:
      config: the model's configuration.
    """

    config: ModelConfig

    def setup(self):
        """Declares the cell, and W_s of each layer unless the initial state is zero or copied."""
        config = self.config
        self.attention_cell = AttentionCell(config)
        if config.initial_state in ("zero", "layers"):
            return
        rows = config.annotation_units
        if config.initial_state == "backward":
            rows = config.encoder.units
        init = initialization(config.initialization)
        self.W_s = [
            self.param(f"W_s_{layer}", init.kernel, (rows, config.decoder.units))
            for layer in range(config.decoder.layers)
        ]

    def keys(self, annotations: Array) -> Array:
        """Returns the score's part that depends on the annotations alone, `float32[B, S, A]`."""
        return self.attention_cell.attention.keys(annotations)

    def initial_state(self, memory: Memory) -> DecoderState:
        """Returns s_0 = tanh(W_s v) in every layer (appendix A.2.2, v = ←h_1), and empty records.

        Args:
          memory: the source sentences; v is, by `initial_state`, the backward direction's last
            state, both directions', the mean annotation, or s_0 is zero. With `layers` s_0 and an
            LSTM's memory are those of the encoder layer of the same number.
        """
        config, (batch, source_length) = self.config, memory.mask.shape
        dtype = memory.final.dtype  # annotations may be stored in a narrower type
        states = memory.layers if config.initial_state == "layers" else self._projected(memory)
        coverage = fed = None
        if config.attention.coverage:
            coverage = jnp.zeros((batch, source_length), dtype)
        if config.fed_units:
            fed = jnp.zeros((batch, config.fed_units), dtype)
        return DecoderState(states, jnp.zeros((), jnp.int32), coverage, fed)

    def _projected(self, memory: Memory) -> tuple[CellState, ...]:
        """Returns each layer's tanh(W_s v), or zeros, with an empty memory in an LSTM."""
        config, batch = self.config, len(memory.mask)
        dtype = memory.final.dtype
        match config.initial_state:
            case "zero":
                hidden = [jnp.zeros((batch, config.decoder.units), dtype)] * config.decoder.layers
            case "backward":
                backward = memory.final[:, config.encoder.units :]
                hidden = [equations.initial_state(backward, W) for W in self.W_s]
            case "final":
                hidden = [equations.initial_state(memory.final, W) for W in self.W_s]
            case _:
                count = jnp.maximum(memory.mask.sum(1, keepdims=True), 1)
                mean = memory.annotations.astype(dtype).sum(1) / count
                hidden = [equations.initial_state(mean, W) for W in self.W_s]
        cells = self.attention_cell.cell
        return tuple(cell.initial_state(s) for cell, s in zip(cells, hidden, strict=True))

    def __call__(self, memory: Memory, embedded: Array, noise: Noise | None = None) -> StepOutput:
        """Runs over all target words at once (teacher forcing).

        Args:
          memory: the source sentences.
          embedded: E y_{i-1}, time-major, `float32[T, B, E]`.
          noise: the randomness of dropout between layers and of states; None for none.

        Returns:
          The outputs of all steps, each with a leading axis T.
        """
        projected = self.attention_cell.project(embedded)
        start = self.initial_state(memory)
        kept = self._kept(noise, len(embedded), embedded.dtype)
        runs = kept is None and kernels.may_run("decoder_loop", self.config.kernels)
        if runs and covers(self.config):
            return self._complete(self._recur(start, projected, memory))
        # A scan sums the gradients of what every step reads in the type that the steps read.
        memory = memory._replace(
            annotations=memory.annotations.astype(memory.final.dtype),
            keys=memory.keys.astype(memory.final.dtype),
        )
        axes: Any = (0, nn.broadcast, nn.broadcast)
        by_step = nn.broadcast if kept is None else Kept(*axes)
        scan = nn.scan(
            AttentionCell.__call__,
            variable_broadcast="params",
            split_rngs={"params": False},
            in_axes=(0, nn.broadcast, by_step),  # pyright: ignore[reportArgumentType]
        )
        _, outputs = scan(self.attention_cell, start, projected, memory, kept)
        return self._complete(outputs)

    def _kept(self, noise: Noise | None, steps: int, dtype: Any) -> Kept | None:
        """Returns dropout's factors, those of layers for all steps; None where nothing drops."""
        if noise is None:
            return None
        units, numbers = self.config.decoder.units, range(self.config.decoder.layers)

        def of_states(place: int) -> Array | None:
            return state_factors(units, noise.rates.states, noise, place, dtype)

        layers: list[Array | None] = [None] * (len(numbers) - 1)
        if not is_off(noise.rates.layers):
            ones = jnp.ones((steps, len(noise.seeds), units), dtype)
            layers = [
                dropout(ones, noise.rates.layers, noise, Place.DECODER_LAYERS.of_layer(layer))
                for layer in numbers[1:]
            ]
        states = [of_states(Place.DECODER_STATES.of_layer(layer)) for layer in numbers]
        if all(factor is None for factor in (*layers, *states)):
            return None
        apart = self.config.attention.query == "intermediate"
        transition = of_states(Place.TRANSITION_STATES) if apart else None
        return Kept(tuple(layers), tuple(states), transition)

    def step(
        self, state: DecoderState, memory: Memory, embedded: Array
    ) -> tuple[DecoderState, StepOutput]:
        """Takes one step of decoding; `embedded` is E y_{i-1}, `float32[B, E]`."""
        state, output = self.attention_cell(state, self.attention_cell.project(embedded), memory)
        return state, self._complete(output)

    def _recur(self, start: DecoderState, projected: Array, memory: Memory) -> StepOutput:
        """Runs the same steps as the scan over `AttentionCell`, by a faster loop."""
        config, cells = self.config, self.attention_cell
        cell, W, b, transition = cells.cell[0], None, None, None
        match config.attention.query:
            case "previous":
                W = cell.C
            case "intermediate":
                W, b, transition = cell.W, cell.bias(), _cell_weights(cells.transition)
            case _:
                W = cell.C if config.fed_units else None
        weights = decoder_loop.Weights(
            cells.attention.score.weights(),
            _cell_weights(cell),
            W,
            b,
            transition,
            cells.W_c if config.feeding == "attentional" else None,
        )
        steps = decoder_loop.recur(
            config.attention.query,
            weights,
            (start.cells[0], start.fed),
            projected,
            memory.annotations,
            memory.keys,
            memory.mask,
        )
        states = steps.state
        if config.attention.query == "previous" and config.readout == "maxout":
            states = jnp.concatenate([start.cells[0][0][None], states[:-1]])
        return StepOutput(states, steps.context, steps.alignment, steps.attentional)

    def _complete(self, outputs: StepOutput) -> StepOutput:
        """Adds h̃ where nothing in the loop needed it: one product over all steps."""
        if self.config.readout != "attentional" or self.config.feeding == "attentional":
            return outputs
        attentional = self.attention_cell.attentional(outputs.context, outputs.state)
        return outputs._replace(attentional=attentional)


def covers(config: ModelConfig) -> bool:
    """Returns whether `kernels.decoder_loop` computes what the scan does with this model."""
    attention = config.attention
    return (
        attention.score != "fixed"
        and score_class(attention.score).IN_LOOP
        and attention.window == "global"
        and not attention.coverage
        and config.decoder.layers == 1
        and not config.normalises("decoder")
    )


def _cell_weights(cell: RecurrentCell) -> decoder_loop.CellWeights:
    return decoder_loop.CellWeights(cell.U, cell.b_u if isinstance(cell, GRUAfter) else None)


class Readout(nn.Module):
    """What of state, context and previous word becomes the vector before the output layer.

    maxout: Bahdanau et al. 2014, appendix A.2.2; tanh: dl4mt and nmtpy; linear hands the state on
    as it is. Luong's attentional vector is computed by the decoder's cell, which may feed it to the
    next step; here it is handed on.

    Attributes:
      config: the model's configuration.
    """

    config: ModelConfig

    def setup(self):
        """Declares U_o (state), V_o (word), C_o (context) and b_o for maxout and tanh."""
        config = self.config
        if config.readout not in ("maxout", "tanh"):
            return
        init = initialization(config.initialization)
        wide = config.readout_units * (2 if config.readout == "maxout" else 1)
        self.U_o = self.param("U_o", init.kernel, (config.decoder.units, wide))
        if config.reads("word"):
            self.V_o = self.param("V_o", init.kernel, (config.embedding, wide))
        if config.reads("context"):
            self.C_o = self.param("C_o", init.kernel, (config.annotation_units, wide))
        self.b_o = self.param("b_o", init.bias, (wide,))

    def __call__(
        self, state: Array, embedded: Array, context: Array, attentional: Array | None
    ) -> Array:
        """Reads out any number of steps at once.

        Args:
          state: s_{i-1} where the query is previous and the readout maxout, else s_i,
            `float32[..., H]`.
          embedded: E y_{i-1}, `float32[..., E]`.
          context: c_i, `float32[..., C]`.
          attentional: h̃_i, `float32[..., R]`, or None where the readout isn't attentional.

        Returns:
          t_i, `float32[..., R]` (linear: `float32[..., H]`).
        """
        if attentional is not None:
            return attentional
        if self.config.readout == "linear":
            return state
        proposal = state @ self.U_o
        if self.config.reads("word"):
            proposal = proposal + embedded @ self.V_o
        if self.config.reads("context"):
            proposal = proposal + context @ self.C_o
        proposal = proposal + jnp.broadcast_to(self.b_o, proposal.shape)
        if self.config.readout == "tanh":
            return equations.tanh_readout(proposal)
        return equations.maxout(proposal)
