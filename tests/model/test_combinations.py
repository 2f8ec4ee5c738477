"""Identities over the combinations of options that validate() allows.

One step at a time, without any scan: every (score, window, query, readout) and every pair of
option values. The whole model, compiled, in float64: every option value; every triple of them, and
with it every pair, is behind `-m slow`. The complete product has hundreds of thousands of members,
and isn't run.
"""

import functools
import random
from typing import NamedTuple

import combinations
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from combinations import SOURCE_SIZE, TARGET_SIZE, Values
from compiling import quick_jit
from flax_tree import apply, named_leaves, random_tree, to_oracle
from reference_parameters import float64

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model.attention import Memory
from bahdanau_jax.model.equations import token_nll
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.special_ids import BOS

# Ragged rows, all of them with padding; the last has no source at all.
SOURCE = np.array([[4, 5, 6, 7, 2, 0, 0], [5, 4, 2, 0, 0, 0, 0], [2, *[0] * 6], [0] * 7])
TARGET = np.array([[6, 4, 7, 2, 0], [5, 2, 0, 0, 0], [7, 8, 2, 0, 0], [4, 3, 2, 0, 0]])
STEPS = 2  # where single steps are compared with the oracle: the second reads the first's records
EMPTY = 3  # the row without a source

CROSSED = {combinations.name(v): v for v in combinations.cover(2, crossed=True)}
SINGLE = {combinations.name(v): v for v in combinations.cover(1, crossed=False)}


class Result(NamedTuple):
    config: ModelConfig
    params: dict  # the model's nesting
    logits: np.ndarray  # [B, T, V]
    alignments: np.ndarray  # [B, T, S]
    gradient: dict  # of the summed loss, like params; empty where it isn't asked for


def make(values: Values) -> tuple[ModelConfig, Seq2Seq, dict]:
    """Returns a model and generic parameters in float32."""
    config = combinations.build(values)
    params = random_tree(config, SOURCE_SIZE, TARGET_SIZE)
    return config, Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE), params


def oracle(config: ModelConfig, params: dict, source, target) -> tuple[np.ndarray, np.ndarray]:
    """Returns the oracle's logits and alignments; it never sees any padding."""
    return reference.decode_teacher_forced(
        to_oracle(params), config, source, source > 0, target, target > 0
    )


def steps(model: Seq2Seq, params: dict, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Decodes in float32 one step at a time, from the oracle's annotations."""
    annotations = reference.encode(to_oracle(params), model.config, SOURCE, SOURCE > 0)
    annotations = jnp.asarray(annotations, jnp.float32)
    final = jnp.stack(
        [
            reference.final_state(model.config, row[:length])
            for row, length in zip(annotations, (SOURCE > 0).sum(1), strict=True)
        ]
    )
    keys = apply(model, params, annotations, method=lambda m, a: m.decoder.keys(a))
    memory = Memory(annotations, keys, jnp.asarray(SOURCE > 0), final)
    if model.config.initial_state == "layers":
        states = reference.last_states(to_oracle(params), model.config, SOURCE, SOURCE > 0)
        members = 2 if model.config.cell == "lstm" else 1
        layers = [tuple(jnp.asarray(x, jnp.float32) for x in layer[:members]) for layer in states]
        memory = memory._replace(layers=tuple(layers))
    state = apply(model, params, memory, method="initial_state")
    previous, logits, alignments = np.full(len(target), BOS), [], []
    for i in range(target.shape[1]):
        state, step_logits, alignment = apply(
            model, params, state, previous, memory, method="decode_step"
        )
        logits.append(step_logits)
        alignments.append(alignment)
        previous = target[:, i]
    return np.stack(logits, axis=1), np.stack(alignments, axis=1)


def summed_loss(logits, target):
    return jnp.sum(token_nll(logits, target), where=target > 0)


@pytest.fixture(scope="module", params=CROSSED.values(), ids=list(CROSSED))
def stepped(request) -> Result:
    """The decoder in float32, one step at a time, nothing compiled as a whole."""
    config, model, params = make(request.param)
    logits, alignments = steps(model, params, TARGET[:, :STEPS])
    return Result(config, params, logits, alignments, {})


def test_a_step_equals_the_oracle(stepped: Result) -> None:
    target = TARGET[:, :STEPS]
    logits, alignments = oracle(stepped.config, stepped.params, SOURCE, target)
    real = target > 0
    np.testing.assert_allclose(stepped.logits[real], logits[real], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(stepped.alignments[real], alignments[real], rtol=1e-5, atol=1e-6)


def check_weights(config: ModelConfig, alignments: np.ndarray) -> None:
    assert np.all(alignments >= 0)
    padding = np.broadcast_to((SOURCE == 0)[:, None, :], alignments.shape)
    assert not alignments[padding].any()
    sums = alignments[:EMPTY].sum(-1)
    if config.attention.renormalize:
        np.testing.assert_allclose(sums, 1.0, rtol=1e-5)
    else:  # Luong's Equation 10: the sum is one before the Gaussian, which is at most one
        assert np.all((sums > 0) & (sums <= 1 + 1e-5))
        assert np.any(sums < 0.999)


def test_weights_sum_to_one_over_real_positions_and_are_zero_elsewhere(stepped: Result) -> None:
    check_weights(stepped.config, stepped.alignments)


class Whole:
    """One combination's model in float64, compiled once for all that is asked of it."""

    def __init__(self, values: Values):
        self.config, self.model, self.single = make(values)
        self.params = float64(self.single)

        def loss(params, source, target):
            logits, alignments = self.model.apply({"params": params}, source, target)
            return summed_loss(logits, target), (logits, alignments)

        self.compiled = quick_jit(jax.value_and_grad(loss, has_aux=True))

    @functools.cached_property
    def result(self) -> Result:
        return self()

    def __call__(self, source=SOURCE, target=TARGET) -> Result:
        with jax.enable_x64(True):
            (_, outputs), gradient = self.compiled(self.params, source, target)
            logits, alignments, gradient = jax.tree.map(np.asarray, (*outputs, gradient))
        return Result(self.config, self.params, logits, alignments, gradient)


@pytest.fixture(scope="module", params=SINGLE.values(), ids=list(SINGLE))
def whole(request) -> Whole:
    return Whole(request.param)


def check_forwards(result: Result) -> None:
    logits, alignments = oracle(result.config, result.params, SOURCE, TARGET)
    real = TARGET > 0
    np.testing.assert_allclose(result.logits[real], logits[real], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(result.alignments[real], alignments[real], rtol=1e-9, atol=1e-12)


def test_the_model_computes_in_the_precision_of_its_parameters(whole: Whole) -> None:
    result = whole.result
    for computed in (result.logits, result.alignments, *jax.tree.leaves(result.gradient)):
        assert computed.dtype == np.float64


def test_the_model_equals_the_oracle_which_sees_no_padding(whole: Whole) -> None:
    check_forwards(whole.result)
    check_weights(whole.config, whole.result.alignments)


def check_gradient(result: Result) -> None:
    """Compares with central differences of the oracle, along random directions."""
    rng = np.random.default_rng(1)

    def loss(params: dict) -> float:
        logits, _ = oracle(result.config, params, SOURCE, TARGET)
        return reference.nll(logits, TARGET, TARGET > 0)

    for _ in range(2):
        direction = jax.tree.map(lambda p: rng.normal(size=p.shape), result.params)
        ahead, here, behind = (
            loss(jax.tree.map(lambda p, d, size=size: p + size * d, result.params, direction))
            for size in (1e-6, 0.0, -1e-6)
        )
        slopes = jax.tree.map(lambda g, d: np.sum(g * d), result.gradient, direction)
        slope = sum(jax.tree.leaves(slopes))
        if slope != pytest.approx((ahead - behind) / 2e-6, rel=1e-5, abs=1e-6):
            # Among so many models, two halves of a maxout may be so near each other that one side
            # of the difference crosses over; the other side's is then the slope, less exactly.
            sides = (ahead - here) / 1e-6, (here - behind) / 1e-6
            nearest = min(sides, key=lambda side: abs(side - slope))
            assert slope == pytest.approx(nearest, rel=1e-4, abs=1e-5)


def test_the_gradient_equals_finite_differences_of_the_oracle(whole: Whole) -> None:
    check_gradient(whole.result)


def check_every_parameter(result: Result) -> None:
    leaves = named_leaves(result.gradient)
    assert leaves.keys() == named_leaves(result.params).keys()
    for path, gradient in leaves.items():
        assert np.all(np.isfinite(gradient)), path
        assert np.any(np.abs(gradient) > 1e-9), path


def test_every_parameter_receives_a_finite_gradient(whole: Whole) -> None:
    check_every_parameter(whole.result)


def test_the_scan_equals_the_loop_of_single_steps(whole: Whole) -> None:
    result = whole.result
    logits, alignments = steps(whole.model, whole.single, TARGET[:, :3])
    np.testing.assert_allclose(result.logits[:, :3], logits, rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(result.alignments[:, :3], alignments, rtol=1e-5, atol=2e-6)


def check_future(made: Whole, result: Result) -> None:
    for step in range(3):  # y_step is read by the step after
        changed = TARGET.copy()
        changed[0, step:4] = [3, 5, 8, 6][step:4]
        other = made(target=changed)
        np.testing.assert_array_equal(other.logits[:, : step + 1], result.logits[:, : step + 1])
        np.testing.assert_array_equal(
            other.alignments[:, : step + 1], result.alignments[:, : step + 1]
        )
        assert np.all(np.abs(other.logits - result.logits)[0, step + 1 : 4].max(-1) > 1e-6)


def test_a_step_depends_on_the_words_before_it_and_on_none_after(whole: Whole) -> None:
    check_future(whole, whole.result)


def check_alone(made: Whole, result: Result) -> None:
    total = None
    for row in range(len(SOURCE)):
        source, target = np.zeros_like(SOURCE), np.zeros_like(TARGET)
        source[1], target[1] = SOURCE[row], TARGET[row]
        alone = made(source, target)
        np.testing.assert_allclose(alone.logits[1], result.logits[row], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(alone.alignments[1], result.alignments[row], atol=1e-12)
        gradient = alone.gradient
        total = gradient if total is None else jax.tree.map(np.add, total, gradient)
    for path, gradient in named_leaves(total).items():
        expected = named_leaves(result.gradient)[path]
        np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-10, err_msg=path)


def test_a_sentence_gets_the_same_alone_as_in_a_batch(whole: Whole) -> None:
    check_alone(whole, whole.result)


PARTS = 16


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_triple_of_options(part: int) -> None:
    for values in combinations.cover(3, crossed=True)[part::PARTS]:
        made = Whole(values)
        result = made.result
        check_forwards(result)
        check_weights(result.config, result.alignments)
        check_gradient(result)
        check_every_parameter(result)
        check_future(made, result)
        check_alone(made, result)


def allowed_parts() -> tuple[set, set]:
    """Returns pairs of option values, and crossed parts, that a random walk comes upon."""
    chance = random.Random(1)
    options = {option: values for group in combinations.GROUPS for option, values in group.items()}
    values = {option: choices[0] for option, choices in options.items()}
    pairs, crossed_parts = set(), set()
    for _ in range(1500):
        changed = chance.sample(sorted(options), chance.choice((1, 1, 2, 3)))
        proposed = values | {option: chance.choice(options[option]) for option in changed}
        if combinations.allowed(combinations.build(proposed)):
            values = proposed
            pairs |= combinations.parts_of(values, 2)
            crossed_parts.add(combinations.crossed_part(values))
    return pairs, crossed_parts


def parts_in(cover: list[Values], strength: int) -> set:
    return set().union(*(combinations.parts_of(values, strength) for values in cover))


def test_the_covers_hold_all_option_values_that_can_be_combined() -> None:
    pairs, crossed_parts = allowed_parts()
    assert len(pairs) > 600 and len(crossed_parts) > 80
    assert pairs <= parts_in(list(CROSSED.values()), 2)
    assert crossed_parts <= {combinations.crossed_part(values) for values in CROSSED.values()}
    values = {frozenset([item]) for pair in pairs for item in pair}
    assert values <= parts_in(list(SINGLE.values()), 1)


@pytest.mark.slow
def test_the_cover_of_every_triple_holds_every_pair() -> None:
    pairs, crossed_parts = allowed_parts()
    cover = combinations.cover(3, crossed=True)
    assert pairs <= parts_in(cover, 2)
    assert crossed_parts <= {combinations.crossed_part(values) for values in cover}
