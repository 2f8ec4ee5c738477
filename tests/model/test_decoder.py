import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from compiling import quick_jit
from flax_tree import apply, to_flax
from reference_parameters import parameter_shapes, random_parameters

from bahdanau_jax.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from bahdanau_jax.model.attention import Memory
from bahdanau_jax.model.decoder import Decoder, DecoderState, StepOutput

LENGTHS = np.array([5, 3, 1, 0])
ROWS, POSITIONS, STEPS = 4, 6, 4
MASK = np.arange(POSITIONS) < LENGTHS[:, None]


def small(**fields) -> ModelConfig:
    """A model of distinct small sizes; `attention` is a dict of AttentionConfig's fields."""
    attention = AttentionConfig(**{"units": 6, "half_width": 1} | fields.pop("attention", {}))
    config = ModelConfig(embedding=3, readout_units=7, attention=attention)
    config.encoder, config.decoder = EncoderConfig(units=4), DecoderConfig(units=5)
    return dataclasses.replace(config, **fields)


class Case:
    """A decoder with generic parameters, annotations and words."""

    def __init__(self, config: ModelConfig):
        self.config, self.module = config, Decoder(config)
        rng = np.random.default_rng(0)
        params = random_parameters(parameter_shapes(config, 4, 4), rng)
        self.oracle = jax.tree.map(np.float32, params)
        self.params = to_flax(self.oracle)["decoder"]
        units = config.encoder.units
        width = units * (2 if config.encoder.bidirectional else 1)
        annotations = rng.normal(size=(ROWS, POSITIONS, width))
        annotations = np.where(MASK[:, :, None], annotations, 0).astype(np.float32)
        last = annotations[np.arange(ROWS), np.maximum(LENGTHS - 1, 0), :units]
        final = np.concatenate([last, annotations[:, 0, units:]], axis=-1)
        keys = self.apply(annotations, method="keys")
        self.memory = Memory(jnp.asarray(annotations), keys, jnp.asarray(MASK), jnp.asarray(final))
        self.words = rng.normal(size=(STEPS, ROWS, 3)).astype(np.float32)  # E y_{i-1}

    def apply(self, *arguments, method=None, params=None) -> Any:
        return apply(self.module, params or self.params, *arguments, method=method)

    def steps(self, words=None, params=None) -> tuple[list[DecoderState], list[StepOutput]]:
        """One step at a time; the states have the initial one before them."""
        state = self.apply(self.memory, method="initial_state", params=params)
        states, outputs = [state], []
        for embedded in self.words if words is None else words:
            state, output = self.apply(state, self.memory, embedded, method="step", params=params)
            states.append(state)
            outputs.append(output)
        return states, outputs


def present(array: jax.Array | None) -> np.ndarray:
    """Returns an array that a configuration is known to have."""
    assert array is not None
    return np.asarray(array)


FORMS: dict[str, dict[str, Any]] = {
    "paper": {},
    "luong": {
        "cell": "lstm",
        "attention": {"score": "general", "query": "current", "window": "local_m"},
        "feeding": "attentional",
        "readout": "attentional",
        "decoder": DecoderConfig(units=5, layers=2),
        "residual": True,
        "initial_state": "final",
    },
    "conditional": {
        "attention": {"query": "intermediate", "coverage": True, "window": "local_p"},
        "gru_reset": "after",
        "layer_norm": "both",
        "initial_state": "mean",
        "readout": "attentional",
    },
}
forms = pytest.mark.parametrize("name", FORMS)


@functools.cache
def case(name: str) -> Case:
    return Case(small(**FORMS[name]))


@forms
def test_the_scan_equals_the_loop_of_single_steps(name: str) -> None:
    made = case(name)
    scanned = quick_jit(lambda memory, words: made.apply(memory, words))(made.memory, made.words)
    _, outputs = made.steps()
    looped = jax.tree.map(lambda *leaves: np.stack(leaves), *outputs)
    for field, scan, loop in zip(StepOutput._fields, scanned, looped, strict=True):
        if scan is None:
            assert loop is None and field == "attentional" and name == "paper"
        else:
            np.testing.assert_allclose(scan, loop, rtol=1e-5, atol=1e-5, err_msg=field)


@pytest.mark.parametrize(
    ("kind", "bidirectional"),
    [("backward", True), *((k, both) for k in ("final", "mean", "zero") for both in (True, False))],
)
def test_initial_states_equal_the_oracle(kind: str, bidirectional: bool) -> None:
    config = small(
        cell="lstm",
        initial_state=kind,
        encoder=EncoderConfig(units=4, bidirectional=bidirectional),
        decoder=DecoderConfig(units=5, layers=2),
    )
    made = Case(config)
    state = made.apply(made.memory, method="initial_state")
    for row, n in enumerate(LENGTHS):
        annotations = np.asarray(made.memory.annotations[row, :n], np.float64)
        expected = reference.initial_state(made.oracle, config, annotations)
        for layer, (hidden, memory) in enumerate(state.cells):
            np.testing.assert_allclose(hidden[row], expected.hidden[layer], rtol=1e-5, atol=1e-6)
            assert not np.any(memory)
    assert len(state.cells) == 2
    assert np.any(state.cells[0][0][:3]) == (kind != "zero")


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_layers_start_from_copies_of_the_encoders_states(cell: str) -> None:
    config = small(cell=cell, initial_state="layers", decoder=DecoderConfig(units=4, layers=2))
    made = Case(config)
    assert not any(name.startswith("W_s") for name in made.params)
    rng = np.random.default_rng(1)
    members = 2 if cell == "lstm" else 1
    layers = tuple(
        tuple(jnp.asarray(rng.normal(size=(ROWS, 4)), jnp.float32) for _ in range(members))
        for _ in range(2)
    )
    state = made.apply(made.memory._replace(layers=layers), method="initial_state")
    jax.tree.map(np.testing.assert_array_equal, state.cells, layers)


def test_the_first_state_holds_empty_records_of_what_is_configured() -> None:
    paper, luong, conditional = (case(name).steps()[0][0] for name in FORMS)
    assert paper.coverage is None and paper.fed is None and paper.step == 0
    assert luong.coverage is None and conditional.fed is None
    np.testing.assert_array_equal(present(luong.fed), np.zeros((ROWS, 7)))
    np.testing.assert_array_equal(present(conditional.coverage), np.zeros((ROWS, POSITIONS)))


def test_coverage_is_the_sum_of_the_alignments_so_far() -> None:
    states, outputs = case("conditional").steps()
    total = np.zeros((ROWS, POSITIONS))
    for step, (state, output) in enumerate(zip(states, outputs, strict=False)):
        np.testing.assert_allclose(present(state.coverage), total, rtol=1e-6, atol=1e-7)
        assert state.step == step
        total = total + output.alignment


def test_input_feeding_hands_on_the_attentional_vector() -> None:
    made = case("luong")
    states, outputs = made.steps()
    W_c = made.params["attention_cell"]["W_c"]
    for state, output in zip(states[1:], outputs, strict=True):
        expected = np.tanh(np.concatenate([output.context, output.state], axis=-1) @ W_c)
        attentional = present(output.attentional)
        np.testing.assert_allclose(attentional, expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(present(state.fed), attentional)
    deaf = jax.tree.map(lambda leaf: leaf, made.params)
    deaf["attention_cell"]["cell_0"]["C"] = 0 * deaf["attention_cell"]["cell_0"]["C"]
    _, others = made.steps(params=deaf)
    np.testing.assert_array_equal(others[0].state, outputs[0].state)  # h~ starts at zero
    assert not np.allclose(others[1].state[:3], outputs[1].state[:3], atol=1e-4)


@pytest.mark.parametrize(
    ("query", "moves"), [("previous", False), ("intermediate", True), ("current", True)]
)
def test_the_query_is_the_state_of_its_moment(query: str, moves: bool) -> None:
    # The word read at step 1 can move the alignment of step 1 only through the new state.
    made = Case(small(attention={"query": query}))
    words = made.words.copy()
    words[1] += 1
    first, second = made.steps()[1], made.steps(words)[1]
    np.testing.assert_array_equal(first[0].alignment, second[0].alignment)
    assert (not np.allclose(first[1].alignment, second[1].alignment)) == moves
    assert not np.allclose(first[2].alignment, second[2].alignment)


@pytest.mark.parametrize("query", ["previous", "intermediate", "current"])
@pytest.mark.parametrize("readout", ["maxout", "attentional", "linear"])
def test_only_the_papers_readout_takes_the_state_before(query: str, readout: str) -> None:
    made = Case(small(attention={"query": query}, readout=readout))
    states, outputs = made.steps()
    for step, output in enumerate(outputs):
        paper = query == "previous" and readout == "maxout"
        read = states[step if paper else step + 1].cells[-1][0]
        np.testing.assert_array_equal(output.state, read)


def test_a_residual_layer_adds_its_input_to_its_output_but_not_to_its_state() -> None:
    states, outputs = case("luong").steps()
    for state, output in zip(states[1:], outputs, strict=True):
        (lower, _), (upper, _) = state.cells
        np.testing.assert_allclose(output.state, lower + upper, rtol=1e-6)


def test_upper_layers_read_the_layer_below() -> None:
    made = Case(small(decoder=DecoderConfig(units=5, layers=3)))
    changed = jax.tree.map(lambda leaf: leaf, made.params)
    changed["attention_cell"]["cell_0"]["b"] = changed["attention_cell"]["cell_0"]["b"] + 1
    first, second = (made.steps(params=p)[0][1].cells for p in (made.params, changed))
    for layer in range(3):
        assert not np.allclose(first[layer][0], second[layer][0], atol=1e-4)
    changed = jax.tree.map(lambda leaf: leaf, made.params)
    changed["attention_cell"]["cell_2"]["b"] = changed["attention_cell"]["cell_2"]["b"] + 1
    second = made.steps(params=changed)[0][1].cells
    for layer in range(2):
        np.testing.assert_array_equal(first[layer][0], second[layer][0])
