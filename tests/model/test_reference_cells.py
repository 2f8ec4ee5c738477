"""The oracle's cells: values computed by hand, and identities between the forms."""

import numpy as np
import pytest
import reference_cells as cells
from reference_parameters import cell_shapes, random_parameters

from bahdanau_jax.config import ModelConfig


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def gates(*columns: float) -> np.ndarray:
    return np.array([columns])


def test_gru_by_hand_in_both_forms() -> None:
    # One unit, x = s = 1; reset 1/2, update 3/4, x and s enter the proposal with weight 1.
    params = {"W": gates(0, 0, 1), "U": gates(0, 0, 1), "b": np.array([0, np.log(3), 0])}
    one = np.ones(1)
    before = cells.gru_before_step(params, one, one)
    np.testing.assert_allclose(before, [0.25 + 0.75 * np.tanh(1.5)], rtol=1e-12)
    after = cells.gru_after_step(params | {"b_u": one}, one, one)
    np.testing.assert_allclose(after, [0.25 * np.tanh(2) + 0.75], rtol=1e-12)


def test_lstm_by_hand() -> None:
    # One unit; input gate 1/4, forget gate 1/2, output gate 3/4, proposal tanh(x + s) = tanh 2.
    params = {"W": gates(0, 0, 1, 0), "U": gates(0, 0, 1, 0)}
    params["b"] = np.array([-np.log(3), 0, 0, np.log(3)])
    s, memory = cells.lstm_step(params, np.ones(1), np.ones(1), np.array([6.0]))
    np.testing.assert_allclose(memory, [3 + np.tanh(2) / 4], rtol=1e-12)
    np.testing.assert_allclose(s, [0.75 * np.tanh(3 + np.tanh(2) / 4)], rtol=1e-12)


def test_a_forget_bias_by_hand() -> None:
    # As above, with nothing entering the gates and a forget gate sigmoid(1).
    params = {"W": gates(0, 0, 1, 0), "U": gates(0, 0, 1, 0), "b": np.zeros(4)}
    one = np.ones(1)
    _, memory = cells.lstm_step(params, one, one, np.array([6.0]), forget_bias=1)
    np.testing.assert_allclose(memory, [6 / (1 + np.exp(-1)) + np.tanh(2) / 2], rtol=1e-12)


def test_both_gru_forms_agree_where_the_reset_gate_is_open_and_the_mixture_is_swapped() -> None:
    params = random_parameters(cell_shapes(ModelConfig(), 3, 4), generator())
    params["b"][:4] = 1e3
    before = cells.gru_before_step(params, np.ones(3), np.ones(4))
    swapped = {name: value.copy() for name, value in params.items()}
    for value in swapped.values():
        value[..., 4:8] *= -1  # 1 - sigmoid(x) = sigmoid(-x)
    after = cells.gru_after_step(swapped | {"b_u": np.zeros(4)}, np.ones(3), np.ones(4))
    np.testing.assert_allclose(after, before, rtol=1e-12)


CELLS = [("gru", "before"), ("gru", "after"), ("lstm", "before")]


@pytest.mark.parametrize(("cell", "reset"), CELLS)
def test_a_context_is_a_second_input(cell: str, reset: str) -> None:
    config = ModelConfig(cell=cell, gru_reset=reset)
    rng = generator()
    params = random_parameters(cell_shapes(config, 3, 4, context=2), rng)
    x, c, s, memory = rng.normal(size=3), rng.normal(size=2), rng.normal(size=4), rng.normal(size=4)
    joined = {name: value for name, value in params.items() if name != "C"}
    joined["W"] = np.concatenate([params["W"], params["C"]])
    expected = cells.cell_step(joined, config, np.concatenate([x, c]), s, memory)
    np.testing.assert_allclose(cells.cell_step(params, config, x, s, memory, c), expected)


def test_layer_normalisation_by_hand() -> None:
    normalized = cells.normalize(np.array([4.0, 6.0, 8.0]), np.array([1.0, 1.0, 2.0]))
    np.testing.assert_allclose(normalized, np.array([-1.5, 0, 3]) / np.sqrt(1.5), rtol=1e-5)
    apart = cells.normalize_apart(np.array([4.0, 6.0, 9.0, 3.0]), np.ones(4), 2)
    np.testing.assert_allclose(apart, [-1, 1, 1, -1], rtol=1e-5)


def test_a_normalised_lstm_by_hand() -> None:
    # Two units. Each input's eight terms alternate, so that they normalise to 1 and -1, whatever
    # their size; the memory's to ±1, here by gain 2 and bias 1 to 3 and -1.
    alternating = np.tile([1.0, -1.0], 4)
    params = {"W": 7.0 * alternating[None], "U": np.stack([5.0 * alternating, np.zeros(8)])}
    params |= {"gain_W": np.ones(8), "gain_U": np.ones(8), "b": np.zeros(8)}
    params |= {"gain_m": np.full(2, 2.0), "b_m": np.ones(2)}
    s, memory = cells.lstm_step(params, np.ones(1), np.ones(2), np.array([6.0, -6.0]))
    gates = 1 / (1 + np.exp([-2.0, 2.0]))
    expected = gates * [6, -6] + gates * np.tanh([2, -2])
    np.testing.assert_allclose(memory, expected, rtol=1e-5)
    np.testing.assert_allclose(s, gates * np.tanh([3, -1]), rtol=1e-4)


@pytest.mark.parametrize(("cell", "reset"), CELLS)
@pytest.mark.parametrize("part", ["W", "C", "U"])
def test_layer_normalisation_makes_each_part_independent_of_its_scale(cell, reset, part) -> None:
    config = ModelConfig(cell=cell, gru_reset=reset)
    rng = generator()
    params = random_parameters(cell_shapes(config, 3, 4, context=2, normalized=True), rng)
    for name in ("W", "C", "U"):
        params[name] *= 100  # the variance is far above what is added to it
    x, c, s, memory = rng.normal(size=3), rng.normal(size=2), rng.normal(size=4), rng.normal(size=4)
    expected = cells.cell_step(params, config, x, s, memory, c)
    scaled = params | {part: 3 * params[part]}
    np.testing.assert_allclose(
        cells.cell_step(scaled, config, x, s, memory, c), expected, rtol=1e-5
    )
    if cell == "gru":  # the proposal is normalised apart from the gates
        scaled = params | {part: params[part] * np.repeat([3.0, 5.0], [8, 4])}
        again = cells.cell_step(scaled, config, x, s, memory, c)
        np.testing.assert_allclose(again, expected, rtol=1e-5)
