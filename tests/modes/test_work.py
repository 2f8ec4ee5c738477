import math
from collections.abc import Iterator
from typing import Any

import combinations
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import equations
from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params
from bahdanau_jax.modes.work import Size, step_work, tanh_count

# Half of a cover of pairs: the parts of a count add up, so that values matter more than pairs.
MODELS = combinations.cover(2, False)[::2]
SIZE = Size(rows=2, source=3, target=4, vocabulary=combinations.TARGET_SIZE)


def programs(value: Any) -> Iterator[Any]:
    if isinstance(value, core.ClosedJaxpr):
        yield value.jaxpr
    elif isinstance(value, core.Jaxpr):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from programs(item)


def live(program: Any) -> list[Any]:
    """Leaves out what no result needs: XLA does, and Flax's scan leaves such traces behind."""
    needed, kept = set(program.outvars), []
    for equation in reversed(program.eqns):
        if needed & set(equation.outvars):
            kept.append(equation)
            needed |= {variable for variable in equation.invars if isinstance(variable, core.Var)}
    return kept


def count(program: Any, primitive: str) -> int:
    """Counts operations of matrix products, or elements of another primitive, loops unrolled."""
    total = 0
    for equation in live(program):
        if equation.primitive.name == primitive == "dot_general":
            ((contracted, _), _) = equation.params["dimension_numbers"]
            left, output = equation.invars[0].aval, equation.outvars[0].aval
            inner = math.prod(left.shape[axis] for axis in contracted)
            total += 2 * math.prod(output.shape) * inner
        elif equation.primitive.name == primitive:
            total += math.prod(equation.outvars[0].aval.shape)
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        for value in equation.params.values():
            total += times * sum(count(inner, primitive) for inner in programs(value))
    return total


@pytest.fixture
def product_as_context(monkeypatch):
    # However the context is summed in the model, here it is a matrix product that can be counted.
    def context_vector(alignment, annotations):
        return jnp.einsum("bs,bsc->bc", alignment, annotations)

    monkeypatch.setattr(equations, "context_vector", context_vector)


def traced(config: ModelConfig, gradient: bool) -> Any:
    model = Seq2Seq(config, combinations.SOURCE_SIZE, combinations.TARGET_SIZE)
    params = jax.eval_shape(lambda: initial_params(model, jax.random.key(0)))
    source = np.full((SIZE.rows, SIZE.source), 4, np.int32)
    target = np.full((SIZE.rows, SIZE.target), 4, np.int32)

    def logits(params):
        return model.apply({"params": params}, source, target)[0]

    def loss(params):
        return logits(params).sum()

    return jax.make_jaxpr(jax.grad(loss) if gradient else logits)(params).jaxpr


def test_every_value_of_every_option_is_among_the_models():
    for group in combinations.GROUPS:
        for option, values in group.items():
            assert {model[option] for model in MODELS} == set(values)


@pytest.mark.parametrize("values", MODELS, ids=combinations.name)
def test_the_count_is_that_of_the_program_that_runs(values, product_as_context):
    config = combinations.build(values)
    expected = sum(work.forward for work in step_work(config, SIZE))
    assert expected == count(traced(config, gradient=False), "dot_general")


@pytest.mark.parametrize("score", ["additive", "general", "projected"])
def test_the_backward_pass_has_two_products_for_each_of_the_forward_pass(score, product_as_context):
    config = ModelConfig()
    config.attention.score = score
    work = step_work(config, SIZE)
    counted = count(traced(config, gradient=True), "dot_general")
    total = sum(w.forward + w.backward for w in work)
    # The start of each recurrence is a constant whose gradient nobody asks for, and the energies
    # are computed again: below a hundredth either way.
    assert counted == pytest.approx(total, rel=0.02)


@pytest.mark.parametrize("score", ["additive", "concat", "concat_identity", "dot", "fixed"])
def test_the_tanh_inside_the_score_is_counted_apart(score):
    config = ModelConfig()
    config.decoder.units = 512  # of the annotations' width, as dot wants
    config.attention.score = score
    config.initial_state = "zero"  # tanh is elsewhere in the gates alone
    config.kernels = "reference"  # the fast loop has a quotient for the tanh
    gates = SIZE.rows * (2 * SIZE.source * config.encoder.units + SIZE.target * 512)
    counted = count(traced(config, gradient=False), "tanh")
    assert counted - gates == tanh_count(config, SIZE)


def test_the_papers_step_by_hand():
    config = ModelConfig()
    config.embedding, config.encoder.units, config.decoder.units = 620, 1000, 1000
    config.attention.units, config.readout_units = 1000, 500
    size = Size(rows=80, source=50, target=51, vocabulary=30_000)
    forward = {work.part: work.forward for work in step_work(config, size)}
    assert forward == {
        "encoder": 80 * 50 * 2 * 2 * 3 * (620 * 1000 + 1000 * 1000),
        "keys": 80 * 50 * 2 * 2000 * 1000,
        "initial state": 80 * 2 * 1000 * 1000,
        "attention": 80 * 51 * 2 * (1000 * 1000 + 50 * (1000 + 2000)),
        "decoder": 80 * 51 * 2 * 3 * (620 + 2000 + 1000) * 1000,
        "readout": 80 * 51 * 2 * (1000 + 620 + 2000) * 1000,
        "output layer": 80 * 51 * 2 * 500 * 30_000,
    }
