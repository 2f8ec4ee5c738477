import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax_tree import apply
from jax.test_util import check_grads
from numpy.typing import DTypeLike
from reference_cells import cell_step
from reference_parameters import cell_shapes, float64, random_parameters

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.cells import make_cell

ROWS, INPUTS, CONTEXT, UNITS = 3, 3, 4, 5
FORMS = [
    (cell, reset, norm, context)
    for cell, reset in (("gru", "before"), ("gru", "after"), ("lstm", "before"))
    for norm in (False, True)
    for context in (0, CONTEXT)
]
forms = pytest.mark.parametrize(("cell", "reset", "norm", "context"), FORMS)
normalised = pytest.mark.parametrize(
    ("cell", "reset", "norm", "context"), [form for form in FORMS if form[2]]
)


class Case:
    """A cell with generic parameters, input, context and state."""

    def __init__(
        self, cell: str, reset: str, norm: bool, context: int, dtype: DTypeLike = np.float32
    ):
        self.config = ModelConfig(
            cell=cell, gru_reset=reset, layer_norm="decoder" if norm else "encoder"
        )
        self.cell = make_cell(self.config, "decoder", UNITS, INPUTS, context=context)
        rng = np.random.default_rng(0)
        params = random_parameters(cell_shapes(self.config, INPUTS, UNITS, context, norm), rng)
        self.params = jax.tree.map(lambda a: a.astype(dtype), params)
        self.x, self.c, *state = (
            rng.normal(size=(ROWS, size)).astype(dtype) for size in (INPUTS, CONTEXT, UNITS, UNITS)
        )
        self.c = self.c if context else None
        self.state = tuple(state[: 2 if cell == "lstm" else 1])

    def step(self, params, x, state, context):
        projected = apply(self.cell, params, x, method="project")
        return apply(self.cell, params, state, projected, context)


@forms
def test_a_step_equals_the_oracle(cell, reset, norm, context) -> None:
    case = Case(cell, reset, norm, context)
    ours = case.step(case.params, case.x, case.state, case.c)
    for row in range(ROWS):
        memory = case.state[-1][row].astype(np.float64)  # a GRU's is ignored
        expected = cell_step(
            float64(case.params),
            case.config,
            case.x[row].astype(np.float64),
            case.state[0][row].astype(np.float64),
            memory,
            None if case.c is None else case.c[row].astype(np.float64),
        )
        for mine, theirs in zip(ours, expected, strict=False):  # a GRU has no memory
            np.testing.assert_allclose(mine[row], theirs, rtol=1e-5, atol=1e-6)
    assert len(ours) == (2 if cell == "lstm" else 1)


@forms
def test_the_gradient_equals_finite_differences(cell, reset, norm, context) -> None:
    with jax.enable_x64(True):
        case = Case(cell, reset, norm, context, np.float64)
        arguments = (case.params, case.x, case.state, case.c)  # None has no gradient to check
        check_grads(case.step, arguments, 1, ["rev"], atol=1e-6, rtol=1e-5)


@forms
def test_every_parameter_of_the_contract_is_declared_and_no_other(cell, reset, norm, context):
    case = Case(cell, reset, norm, context)
    declared = jax.eval_shape(
        lambda key: case.cell.init(key, case.x, method="project"), jax.random.key(0)
    )["params"]
    expected = cell_shapes(case.config, INPUTS, UNITS, context, norm)
    assert {name: leaf.shape for name, leaf in declared.items()} == expected


@forms
def test_projecting_all_steps_at_once_is_projecting_each(cell, reset, norm, context) -> None:
    case = Case(cell, reset, norm, context)
    x = np.random.default_rng(1).normal(size=(4, ROWS, INPUTS)).astype(np.float32)
    together = apply(case.cell, case.params, x, method="project")
    for step in range(4):
        alone = apply(case.cell, case.params, x[step], method="project")
        np.testing.assert_allclose(together[step], alone, rtol=1e-6, atol=1e-6)


def test_the_state_starts_from_a_hidden_state_and_an_empty_memory() -> None:
    hidden = jnp.ones((ROWS, UNITS))
    for cell, members in (("gru", 1), ("lstm", 2)):
        case = Case(cell, "before", False, 0)
        state = apply(case.cell, case.params, hidden, method="initial_state")
        np.testing.assert_array_equal(state[0], hidden)
        assert len(state) == members and not np.any(state[1:])


@pytest.mark.parametrize("norm", [False, True])
def test_a_forget_bias_is_one_more_in_the_forget_gates_bias_and_no_parameter(norm) -> None:
    case = Case("lstm", "before", norm, CONTEXT)
    config = dataclasses.replace(case.config, forget_bias=1)
    biased = make_cell(config, "decoder", UNITS, INPUTS, context=CONTEXT)
    added = case.params | {"b": case.params["b"] + np.repeat([0, 1, 0, 0], UNITS)}
    projected = apply(biased, case.params, case.x, method="project")
    ours = apply(biased, case.params, case.state, projected, case.c)
    expected = case.step(added, case.x, case.state, case.c)
    for mine, other, without in zip(
        ours, expected, case.step(case.params, case.x, case.state, case.c), strict=True
    ):
        np.testing.assert_allclose(mine, other, rtol=1e-6)
        assert not np.allclose(mine, without, atol=1e-3)


def gates(*values: float) -> np.ndarray:
    """One unit's weights, of one input."""
    return np.array([values], np.float32)


def test_the_two_grus_by_hand() -> None:
    # x = s = 1; reset 1/2, update 3/4; x and s enter the proposal with weight 1.
    params = {
        "W": gates(0, 0, 1),
        "U": gates(0, 0, 1),
        "b": np.array([0, np.log(3), 0], np.float32),
    }
    one = np.ones((1, 1), np.float32)

    def step(reset: str, params) -> float:
        cell = make_cell(ModelConfig(gru_reset=reset), "decoder", 1, 1)
        projected = apply(cell, params, one, method="project")
        return apply(cell, params, (one,), projected)[0].item()

    assert step("before", params) == pytest.approx(0.25 + 0.75 * np.tanh(1.5), rel=1e-6)
    biased = params | {"b_u": np.ones(1, np.float32)}
    assert step("after", biased) == pytest.approx(0.25 * np.tanh(2) + 0.75, rel=1e-6)


@pytest.mark.parametrize("reset", ["before", "after"])
def test_an_update_gate_that_is_shut_keeps_the_state(reset: str) -> None:
    case = Case("gru", reset, False, 0)
    keep = -1e4 if reset == "before" else 1e4  # the forms mix the other way round
    params = dict(case.params)
    params["b"] = params["b"] + np.repeat(np.array([0, keep, 0], np.float32), UNITS)
    (state,) = case.step(params, case.x, case.state, None)
    np.testing.assert_array_equal(state, case.state[0])


@normalised
def test_layer_normalisation_leaves_no_trace_of_a_projections_scale(cell, reset, norm, context):
    case = Case(cell, reset, norm, context)
    # Far above what is added to the variance.
    large = case.params | {name: 1e3 * case.params[name] for name in "WUC" if name in case.params}
    larger = large | {name: 2 * large[name] for name in "WUC" if name in large}
    first = case.step(large, case.x, case.state, case.c)
    for mine, other in zip(first, case.step(larger, case.x, case.state, case.c), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4, atol=1e-5)


@normalised
@pytest.mark.parametrize("part", "WUC")
def test_a_grus_gates_share_their_statistics_and_its_proposal_has_its_own(
    cell, reset, norm, context, part
):
    # Ba et al. 2016, supplement; an LSTM's four terms share theirs.
    case = Case(cell, reset, norm, context)
    if part not in case.params:
        pytest.skip("there is no such product")
    gates = case.cell.GATES
    large = case.params | {part: 1e3 * case.params[part]}
    first = case.step(large, case.x, case.state, case.c)
    for factors, same in (
        ([2] * (gates - 1) + [5], cell == "gru"),
        ([5] + [2] * (gates - 1), False),
        ([5] * gates, True),
    ):
        scaled = large | {part: large[part] * np.repeat(factors, UNITS).astype(np.float32)}
        again = case.step(scaled, case.x, case.state, case.c)
        assert np.allclose(first[0], again[0], rtol=1e-4, atol=1e-5) == same, factors
