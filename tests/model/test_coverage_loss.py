"""The loss of attending again: its value, its gradient, and that it stays beside the likelihood."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from compiling import quick_jit
from flax_tree import random_tree, to_oracle

from bahdanau_jax.config import Config
from bahdanau_jax.fields import with_values
from bahdanau_jax.model.equations import coverage_loss
from bahdanau_jax.model.seq2seq import LossSums, Seq2Seq

SOURCE_SIZE, TARGET_SIZE = 8, 9

SOURCE = np.array([[4, 5, 6, 7, 2], [5, 2, 0, 0, 0], [3, 6, 2, 0, 0]])
TARGET = np.array([[6, 4, 7, 5, 2], [5, 7, 2, 0, 0], [7, 2, 0, 0, 0]])
WEIGHT = 0.7
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
}


def in_numpy(alignments, lengths):
    """Returns Σ_i Σ_j min(α_ij, Σ_{k<i} α_kj) over the first steps of each row of `[B, T, S]`."""
    total = 0.0
    for row, steps in zip(alignments, lengths, strict=True):
        past = np.zeros(row.shape[1])
        for alignment in row[:steps]:
            total += sum(min(a, c) for a, c in zip(alignment, past, strict=True))
            past += alignment
    return total


def test_the_equation_is_the_sum_by_step_and_position():
    alignments = np.random.default_rng(0).dirichlet(np.ones(5), (3, 6))
    ours = coverage_loss(jnp.asarray(alignments.swapaxes(0, 1)))
    assert ours.shape == (6, 3)
    assert (ours[0] == 0).all()
    for steps in (1, 2, 6):
        wanted = in_numpy(alignments, [steps] * 3)
        assert float(ours[:steps].sum()) == pytest.approx(wanted, rel=1e-6)


def model_of(name, kernels="auto"):
    changes = MODELS[name] | {"kernels": kernels}
    changes = {f"model.{path}": value for path, value in changes.items()}
    config = with_values(Config(), changes).model
    config.embedding = config.encoder.units = config.decoder.units = 6
    config.attention.units = config.readout_units = 6
    return Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)


def sums(model, params, coverage) -> tuple[LossSums, dict]:
    """Returns the loss and its parts, and its gradient."""

    def loss(params):
        made = model.apply(
            {"params": params}, SOURCE, TARGET, None, 0.0, coverage, method="loss_sums"
        )
        return made.loss, made

    (_, made), gradient = quick_jit(jax.value_and_grad(loss, has_aux=True))(params)
    return made, gradient


def params_of(model):
    return random_tree(model.config, SOURCE_SIZE, TARGET_SIZE)


@pytest.mark.parametrize("name", MODELS)
def test_the_loss_grows_by_its_weight_times_the_sum_of_the_oracles_alignments(name):
    model = model_of(name)
    params = params_of(model)
    plain, gradient = sums(model, params, 0.0)
    ours, theirs = sums(model, params, WEIGHT)
    _, alignments = reference.decode_teacher_forced(
        to_oracle(params), model.config, SOURCE, SOURCE > 0, TARGET, TARGET > 0
    )
    wanted = in_numpy(alignments, (TARGET > 0).sum(axis=1))
    assert wanted > 0.5
    assert plain.of_alignments == {}
    assert float(ours.of_alignments["coverage"]) == pytest.approx(wanted, rel=1e-4)
    assert float(ours.loss) == pytest.approx(float(plain.loss) + WEIGHT * wanted, rel=1e-5)
    assert float(ours.nll) == pytest.approx(float(plain.nll), rel=1e-6)
    # It reaches the alignment model, and the annotations below it.
    for part in ("source_embedding", "decoder"):
        gap = jax.tree.map(lambda a, b: np.abs(a - b).max(), theirs[part], gradient[part])
        assert max(jax.tree.leaves(gap)) > 1e-3


@pytest.mark.parametrize("name", ["additive", "general"])
def test_the_fast_loop_has_the_gradient_of_the_plain_one(name):
    params = params_of(model_of(name))
    (fast, ours), (plain, theirs) = (
        sums(model_of(name, kernels), params, 5.0) for kernels in ("auto", "reference")
    )
    assert float(fast.loss) == pytest.approx(float(plain.loss), rel=1e-5)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-3), ours, theirs)
