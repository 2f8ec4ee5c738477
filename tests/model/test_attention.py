import functools

import combinations
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from combinations import Values
from flax_tree import apply, attention_to_flax, named_leaves
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from jax.test_util import check_grads
from numpy.typing import DTypeLike
from reference_parameters import attention_shapes, float64, random_parameters

from bahdanau_jax.config import AttentionConfig, ModelConfig
from bahdanau_jax.model.attention import Attention, BahdanauAttention, LuongAttention, Memory
from bahdanau_jax.model.equations import (
    context_vector,
    gaussian,
    masked_softmax,
    monotonic_centre,
    window_mask,
)
from bahdanau_jax.model.initialization import initialization

LENGTHS = np.array([7, 4, 1, 0])
ROWS, POSITIONS, WIDTH = 4, 8, 8
MASK = np.arange(POSITIONS) < LENGTHS[:, None]
REAL = LENGTHS > 0


def every_scoring() -> dict[str, Values]:
    """Every score with its options and every window that it goes with."""
    scores, windows = combinations.group_members()[0], combinations.group_members()[4]
    found = {}
    for values in (score | window for score in scores for window in windows):
        if combinations.allowed(combinations.build({"encoder.bidirectional": True} | values)):
            words = [
                str(v) if isinstance(v, str) else option.rsplit(".", 1)[-1]
                for option, v in values.items()
                if v and v != "none" and option != "attention.renormalize"
            ]
            found["-".join(words) + "-raw" * (not values["attention.renormalize"])] = values
    return found


EVERY = every_scoring()
every = pytest.mark.parametrize("name", EVERY)
# `fixed` has neither energies nor windows.
scored = pytest.mark.parametrize("name", [name for name in EVERY if "fixed" not in name])


class Case:
    """One score and window, with generic parameters and inputs."""

    def __init__(self, name: str, dtype: DTypeLike = np.float32):
        self.config: ModelConfig = combinations.build({"encoder.bidirectional": True} | EVERY[name])
        rng = np.random.default_rng(0)
        units = self.config.decoder.units
        self.params = random_parameters(attention_shapes(self.config, WIDTH), rng)
        self.params = jax.tree.map(lambda a: a.astype(dtype), self.params)
        self.module = Attention(self.config.attention, units, WIDTH, initialization("glorot"))
        annotations = rng.normal(size=(ROWS, POSITIONS, WIDTH))
        self.annotations = np.where(MASK[:, :, None], annotations, 0).astype(dtype)
        self.query = rng.normal(size=(ROWS, units)).astype(dtype)
        coverage = np.where(MASK, rng.uniform(size=(ROWS, POSITIONS)), 0).astype(dtype)
        self.coverage = coverage if self.config.attention.coverage else None

    def final(self, annotations, lengths=LENGTHS):
        """[→h at the last real position ; ←h at the first], as the encoder hands it over."""
        last = np.maximum(lengths - 1, 0)
        half = WIDTH // 2
        return jnp.concatenate(
            [annotations[np.arange(len(lengths)), last, :half], annotations[:, 0, half:]], axis=-1
        )

    def attend(self, params, query, annotations, *, step=0, mask=MASK, coverage=None):
        params = attention_to_flax(params)
        keys = apply(self.module, params, annotations, method="keys")
        final = self.final(annotations, mask.sum(1))
        memory = Memory(jnp.asarray(annotations), keys, jnp.asarray(mask), final)
        return apply(self.module, params, query, memory, jnp.asarray(step, jnp.int32), coverage)

    def __call__(self, step: int = 0):
        """Returns context [B, C] and alignment [B, S]."""
        outputs = self.attend(
            self.params, self.query, self.annotations, step=step, coverage=self.coverage
        )
        return map(np.asarray, outputs)


def test_the_worked_example_of_the_third_seed() -> None:
    weights = masked_softmax(jnp.array([[2.0, 0.5, -1.0]]), jnp.ones((1, 3), bool))
    annotations = jnp.array([[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]])
    context = context_vector(weights, annotations)
    assert np.round(np.float64(weights[0]), 3).tolist() == [0.786, 0.175, 0.039]
    assert np.round(np.float64(context[0]), 3).tolist() == [0.825, 0.214]


ENERGIES = hnp.arrays(np.float32, (2, 5), elements=st.floats(-100, 100, width=32))
MASKS = hnp.arrays(np.bool_, (2, 5))
quick = settings(max_examples=40, deadline=None)


@quick
@given(ENERGIES, MASKS)
def test_masked_softmax_equals_the_oracle_for_any_mask(energies, mask) -> None:
    weights = np.asarray(masked_softmax(energies, mask))
    for row in range(2):
        expected = reference.masked_softmax(energies[row].astype(np.float64), mask[row])
        np.testing.assert_allclose(weights[row], expected, rtol=1e-5, atol=1e-7)
    assert not weights[~mask].any()


@quick
@given(ENERGIES, MASKS, st.sampled_from([1e30, -1e30, np.inf, np.nan]))
def test_masked_energies_have_no_say_and_receive_no_gradient(energies, mask, other) -> None:
    weigh = np.random.default_rng(0).normal(size=(2, 5)).astype(np.float32)

    def both(energies):
        weights, pullback = jax.vjp(lambda e: masked_softmax(e, mask), energies)
        return np.asarray(weights), np.asarray(pullback(jnp.asarray(weigh))[0])

    weights, gradient = both(energies)
    again, same = both(np.where(mask, energies, np.float32(other)))
    np.testing.assert_array_equal(again, weights)
    np.testing.assert_array_equal(same, gradient)
    assert np.all(np.isfinite(gradient)) and not gradient[~mask].any()


def test_masked_softmax_neither_overflows_nor_depends_on_a_shift() -> None:
    mask = jnp.array([[True, True, False]])
    for shift in (-1e4, 0.0, 1e4, 3e38):
        energies = jnp.array([[1.0, 1.0, 5.0]]) * 0 + shift
        np.testing.assert_array_equal(masked_softmax(energies, mask), [[0.5, 0.5, 0.0]])
    apart = masked_softmax(jnp.array([[3e38, -3e38, 0.0]]), mask)
    np.testing.assert_array_equal(apart, [[1.0, 0.0, 0.0]])


def test_masked_softmax_has_the_gradient_of_its_finite_differences() -> None:
    with jax.enable_x64(True):
        energies, mask = np.random.default_rng(0).normal(size=(ROWS, POSITIONS)), jnp.asarray(MASK)
        check_grads(lambda e: masked_softmax(e, mask), (energies,), 1, ["rev"], 1e-7, 1e-6)


def test_windows_by_hand() -> None:
    mask = jnp.array([[True] * 5 + [False]])
    centres = [float(monotonic_centre(jnp.array(i), mask)[0]) for i in (0, 3, 4, 9)]
    assert centres == [0, 3, 4, 4]
    inside = window_mask(jnp.array([2.5]), 2, mask)
    np.testing.assert_array_equal(inside, [[False, True, True, True, True, False]])
    np.testing.assert_array_equal(
        window_mask(jnp.array([4.0]), 1, mask), [[False, False, False, True, True, False]]
    )
    # σ = 1
    expected = np.exp(-((np.arange(6) - 2.5) ** 2) / 2)
    np.testing.assert_allclose(gaussian(jnp.array([2.5]), 2, mask), [expected], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "step"), [(n, step) for n in EVERY for step in ((0, 3, 9) if "local_m" in n else (2,))]
)
def test_alignment_and_context_equal_the_oracle(name: str, step: int) -> None:
    case = Case(name)
    context, alignment = case(step)
    past = np.zeros((ROWS, POSITIONS)) if case.coverage is None else case.coverage
    for row, n in enumerate(LENGTHS):
        expected_alignment, expected_context = reference.attend(
            float64(case.params),
            case.config,
            case.query[row].astype(np.float64),
            case.annotations[row, :n].astype(np.float64),
            step,
            past[row, :n],
        )
        np.testing.assert_allclose(alignment[row, :n], expected_alignment, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(context[row], expected_context, rtol=1e-5, atol=1e-5)


@every
def test_a_row_without_a_source_has_no_weight_and_no_context(name: str) -> None:
    context, alignment = Case(name)(step=2)
    assert not alignment[~REAL].any() and not context[~REAL].any()
    assert not alignment[~MASK].any()


@scored
def test_weights_sum_to_one_over_real_positions_before_a_gaussian_that_only_luong_keeps(name):
    case = Case(name)
    _, alignment = case(step=2)
    if case.config.attention.renormalize:
        np.testing.assert_allclose(alignment[REAL].sum(-1), 1.0, rtol=1e-6)
        return
    # Luong's Equation 10 multiplies by the Gaussian and doesn't divide by the sum again.
    assert np.all(alignment[REAL].sum(-1) < 1.0)
    share = reference.sigmoid(np.tanh(case.query @ case.params["W_p"]) @ case.params["v_p"])
    centre = (LENGTHS * share)[:, None]
    deviation = case.config.attention.half_width / 2
    weights = alignment / np.exp(-((np.arange(POSITIONS) - centre) ** 2) / (2 * deviation**2))
    np.testing.assert_allclose(weights[REAL].sum(-1), 1.0, rtol=1e-5)


@pytest.mark.parametrize("name", [n for n in EVERY if "global" in n and "fixed" not in n])
def test_permuting_positions_permutes_the_weights_and_leaves_the_context(name: str) -> None:
    case = Case(name)
    context, alignment = case()
    order = np.random.default_rng(2).permutation(POSITIONS)
    other_context, other_alignment = case.attend(
        case.params,
        case.query,
        case.annotations[:, order],
        mask=MASK[:, order],
        coverage=None if case.coverage is None else case.coverage[:, order],
    )
    np.testing.assert_allclose(other_alignment, alignment[:, order], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(other_context, context, rtol=1e-5, atol=1e-6)


@every
def test_more_padding_changes_nothing(name: str) -> None:
    case = Case(name)
    context, alignment = case(step=2)
    more = ((0, 0), (0, 3))
    wider_context, wider_alignment = case.attend(
        case.params,
        case.query,
        np.pad(case.annotations, (*more, (0, 0))),
        step=2,
        mask=np.pad(MASK, more),
        coverage=None if case.coverage is None else np.pad(case.coverage, more),
    )
    np.testing.assert_allclose(wider_context, context, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(wider_alignment[:, :POSITIONS], alignment, rtol=1e-6, atol=1e-8)
    assert not np.any(wider_alignment[:, POSITIONS:])


@functools.cache
def gradients(name: str):
    """Returns those of a generic function of context and alignment, by their paths."""
    case = Case(name)
    rng = np.random.default_rng(3)
    into_context = rng.normal(size=(ROWS, WIDTH)).astype(np.float32)
    into_alignment = rng.normal(size=(ROWS, POSITIONS)).astype(np.float32)

    def f(params, query, annotations):
        context, alignment = case.attend(params, query, annotations, step=2, coverage=case.coverage)
        return jnp.sum(context * into_context) + jnp.sum(alignment * into_alignment)

    return jax.grad(f, argnums=(0, 1, 2))(case.params, case.query, case.annotations)


@scored
def test_every_parameter_receives_a_finite_gradient(name: str) -> None:
    params, query, _ = gradients(name)
    assert np.all(np.isfinite(query))
    assert np.any(query) or EVERY[name]["attention.score"] == "uniform"
    for path, gradient in named_leaves(params).items():
        assert np.all(np.isfinite(gradient)) and np.any(gradient), path


@scored
def test_no_gradient_reaches_padding(name: str) -> None:
    _, _, annotations = gradients(name)
    assert not np.any(np.asarray(annotations)[~MASK])
    assert np.any(np.asarray(annotations)[0, :, 0])


@pytest.mark.parametrize(
    "name", ["additive-bias-normalize-coverage-local_p", "general-learned-local_p-raw"]
)
def test_the_gradient_equals_finite_differences(name: str) -> None:
    with jax.enable_x64(True):
        case = Case(name, np.float64)

        def f(params, query, annotations):
            return case.attend(params, query, annotations, coverage=case.coverage)

        arguments = (case.params, case.query, case.annotations)
        check_grads(f, arguments, order=1, modes=["rev"], atol=1e-6, rtol=1e-5)


def test_fixed_hands_on_the_last_states_and_points_at_the_last_token() -> None:
    case = Case("fixed-global")
    context, alignment = case()
    np.testing.assert_array_equal(context, case.final(case.annotations))
    assert alignment[:3].argmax(-1).tolist() == [6, 3, 0] and alignment.sum() == 3


def test_the_names_that_people_look_for_are_the_one_attention() -> None:
    bahdanau = BahdanauAttention(6, 5, WIDTH, normalize=True)
    assert bahdanau == Attention(
        AttentionConfig(score="additive", units=6, normalize=True), 5, WIDTH, bahdanau.initialize
    )
    for score in ("dot", "general", "concat", "projected"):
        luong = LuongAttention(score, WIDTH, WIDTH, units=6)
        keys = luong.init_with_output(jax.random.key(0), jnp.ones((1, 2, WIDTH)), method="keys")[0]
        assert luong.config.score == score
        assert keys.shape == (1, 2, 6 if score in ("concat", "projected") else WIDTH)
    with pytest.raises(ValueError, match="additive"):
        LuongAttention("additive", 5, WIDTH)
