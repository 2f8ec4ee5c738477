"""Losses of the alignment, of attending again and of other links than the given: value, gradient.

They are compared with sums over the oracle's alignments, their gradients with finite differences.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from compiling import quick_jit
from flax_tree import random_tree, to_oracle
from reference_parameters import float64

from bahdanau_jax.config import Config
from bahdanau_jax.fields import with_values
from bahdanau_jax.model.equations import coverage_loss, guide_loss
from bahdanau_jax.model.seq2seq import LossSums, Seq2Seq

SOURCE_SIZE, TARGET_SIZE = 8, 9

SOURCE = np.array([[4, 5, 6, 7, 2], [5, 2, 0, 0, 0], [3, 6, 2, 0, 0]])
TARGET = np.array([[6, 4, 7, 5, 2], [5, 7, 2, 0, 0], [7, 2, 0, 0, 0]])
# One, two and no source words for a target word; nothing for the end marks.
LINKS = np.zeros((3, 5, 5), np.float32)
LINKS[0, 0, 3] = LINKS[1, 1, 0] = LINKS[2, 0, 1] = 1.0
LINKS[0, 2, [0, 2]] = 0.5
WEIGHT = 0.7
LOSSES: dict[str, dict[str, Any]] = {
    "coverage": {"coverage": WEIGHT},
    "guide": {"guide": WEIGHT, "links": LINKS},
}
MODELS = {
    "additive": {},
    "coverage": {"attention.coverage": True},
    "general": {"attention.score": "general", "attention.query": "intermediate"},
    "local": {
        "attention.score": "general",
        "attention.query": "current",
        "attention.window": "local_p",
        "attention.half_width": 2,
        "attention.renormalize": False,
        "readout": "attentional",
        "feeding": "attentional",
    },
    "layers": {"attention.query": "current", "feeding": "context", "decoder.layers": 2},
    "reversed": {"reverse_source": True},
}


def in_numpy(loss, alignments, lengths):
    """Returns a loss over the first steps of each row of `[B, T, S]`, one position at a time."""
    total = 0.0
    for row, steps, links in zip(alignments, lengths, LINKS, strict=False):
        past = np.zeros(row.shape[1])
        for alignment, linked in zip(row[:steps], links, strict=False):
            if loss == "coverage":
                total += sum(min(a, c) for a, c in zip(alignment, past, strict=True))
            else:
                total -= sum(g * np.log(a + 1e-6) for a, g in zip(alignment, linked, strict=True))
            past += alignment
    return total


def test_the_equations_are_sums_by_step_and_position():
    alignments = np.random.default_rng(0).dirichlet(np.ones(5), (3, 5))
    again = coverage_loss(jnp.asarray(alignments.swapaxes(0, 1)))
    assert again.shape == (5, 3)
    assert (again[0] == 0).all()
    guided = guide_loss(jnp.asarray(alignments.swapaxes(0, 1)), jnp.asarray(LINKS.swapaxes(0, 1)))
    assert guided.shape == (5, 3)
    assert (guided[4] == 0).all()  # nothing is linked there
    for steps in (1, 2, 5):
        for name, ours in (("coverage", again), ("guide", guided)):
            wanted = in_numpy(name, alignments, [steps] * 3)
            assert float(ours[:steps].sum()) == pytest.approx(wanted, rel=1e-6)


def test_a_guided_word_that_attends_nowhere_it_should_has_a_finite_loss():
    def loss(energies):
        return guide_loss(jax.nn.softmax(energies)[None, None], jnp.asarray([[[0.0, 1.0]]])).sum()

    value, gradient = jax.value_and_grad(loss)(jnp.asarray([200.0, 0.0]))
    assert float(value) == pytest.approx(-np.log(1e-6), rel=1e-6)
    assert np.isfinite(gradient).all()
    value, gradient = jax.value_and_grad(loss)(jnp.asarray([0.0, 0.0]))
    assert float(value) == pytest.approx(np.log(2), rel=1e-4)
    np.testing.assert_allclose(gradient, [0.5, -0.5], rtol=1e-4)


def model_of(name, kernels="auto"):
    changes = MODELS[name] | {"kernels": kernels}
    changes = {f"model.{path}": value for path, value in changes.items()}
    config = with_values(Config(), changes).model
    config.embedding = config.encoder.units = config.decoder.units = 6
    config.attention.units = config.readout_units = 6
    return Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)


def sums(model, params, weights) -> tuple[LossSums, dict]:
    """Returns the loss and its parts, and its gradient."""

    def loss(params):
        made = model.apply(
            {"params": params}, SOURCE, TARGET, None, 0.0, **weights, method="loss_sums"
        )
        return made.loss, made

    (_, made), gradient = quick_jit(jax.value_and_grad(loss, has_aux=True))(params)
    return made, gradient


def params_of(model):
    return random_tree(model.config, SOURCE_SIZE, TARGET_SIZE)


def of_oracle(model, params):
    """Returns the oracle's logits and alignments."""
    return reference.decode_teacher_forced(
        to_oracle(params), model.config, SOURCE, SOURCE > 0, TARGET, TARGET > 0
    )


LENGTHS = (TARGET > 0).sum(axis=1)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", MODELS)
def test_the_loss_grows_by_its_weight_times_the_sum_of_the_oracles_alignments(name, loss):
    model = model_of(name)
    params = params_of(model)
    plain, gradient = sums(model, params, {})
    ours, theirs = sums(model, params, LOSSES[loss])
    wanted = in_numpy(loss, of_oracle(model, params)[1], LENGTHS)
    assert wanted > 0.5
    assert plain.of_alignments == {}
    assert float(ours.of_alignments[loss]) == pytest.approx(wanted, rel=1e-4)
    assert float(ours.loss) == pytest.approx(float(plain.loss) + WEIGHT * wanted, rel=1e-5)
    assert float(ours.nll) == pytest.approx(float(plain.nll), rel=1e-6)
    # It reaches the alignment model, and the annotations below it.
    for part in ("source_embedding", "decoder"):
        gap = jax.tree.map(lambda a, b: np.abs(a - b).max(), theirs[part], gradient[part])
        assert max(jax.tree.leaves(gap)) > 1e-3


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", MODELS)
def test_its_gradient_equals_finite_differences_of_the_oracle(name, loss):
    model = model_of(name)
    params = float64(params_of(model))

    def whole(params) -> float:
        logits, alignments = of_oracle(model, params)
        added = in_numpy(loss, alignments, LENGTHS)
        return reference.nll(logits, TARGET, TARGET > 0) + WEIGHT * added

    with jax.enable_x64(True):
        made, gradient = jax.tree.map(np.asarray, sums(model, params, LOSSES[loss]))
    assert float(made.loss) == pytest.approx(whole(params), rel=1e-9)
    rng = np.random.default_rng(0)
    for _ in range(2):
        direction = jax.tree.map(lambda p: rng.normal(size=p.shape), params)
        ahead, behind = (
            whole(jax.tree.map(lambda p, d, size=size: p + size * d, params, direction))
            for size in (1e-6, -1e-6)
        )
        slope = sum(jax.tree.leaves(jax.tree.map(lambda g, d: np.sum(g * d), gradient, direction)))
        assert slope == pytest.approx((ahead - behind) / 2e-6, rel=1e-5, abs=1e-6)


def test_links_without_a_weight_and_words_without_links_change_nothing():
    model = model_of("additive")
    params = params_of(model)
    plain, gradient = sums(model, params, {})
    for weights in ({"links": LINKS}, {"guide": WEIGHT, "links": 0 * LINKS}):
        ours, theirs = sums(model, params, weights)
        assert float(ours.loss) == float(plain.loss)
        jax.tree.map(np.testing.assert_array_equal, theirs, gradient)


@pytest.mark.parametrize("name", ["additive", "general"])
@pytest.mark.parametrize("weights", [{"coverage": 5.0}, {"guide": 5.0, "links": LINKS}])
def test_the_fast_loop_has_the_gradient_of_the_plain_one(name, weights):
    params = params_of(model_of(name))
    (fast, ours), (plain, theirs) = (
        sums(model_of(name, kernels), params, weights) for kernels in ("auto", "reference")
    )
    assert float(fast.loss) == pytest.approx(float(plain.loss), rel=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3), ours, theirs)
