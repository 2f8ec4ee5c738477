import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from compiling import quick_jit
from flax_tree import apply, named_leaves, random_tree, to_flax, to_oracle
from reference_parameters import parameter_shapes

from bahdanau_jax.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig
from bahdanau_jax.model.decoder import Readout
from bahdanau_jax.model.dropout import Noise, Rates, example_seeds
from bahdanau_jax.model.equations import token_nll
from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params

SOURCE_SIZE, TARGET_SIZE = 8, 9
SOURCE = np.array([[4, 5, 6, 7, 3, 2], [5, 4, 2, 0, 0, 0], [2, 0, 0, 0, 0, 0]])
TARGET = np.array([[6, 4, 7, 5, 2], [5, 2, 0, 0, 0], [7, 8, 2, 0, 0]])

MODELS = {  # as the literature names them, in tiny sizes
    "rnnsearch": {},
    "rnnencdec": {"attention": {"score": "fixed"}},
    "luong": {
        "cell": "lstm",
        "encoder": EncoderConfig(units=5, layers=3, bidirectional=False),
        "decoder": DecoderConfig(units=5, layers=3),  # with two, "below" and "lowest" are one
        "residual": True,
        "attention": {"score": "general", "query": "current", "window": "local_p"},
        "feeding": "attentional",
        "readout": "attentional",
        "initial_state": "final",
        "initialization": "uniform",
    },
    "conditional": {
        "gru_reset": "after",
        "attention": {"query": "intermediate", "bias": True, "coverage": True, "normalize": True},
        "layer_norm": "both",
        "initial_state": "mean",
        "tie_embeddings": "output",
    },
    "seed": {"gru_reset": "after", "readout": "linear"},
}
models = pytest.mark.parametrize("name", MODELS)


def build(name: str) -> ModelConfig:
    fields = dict(MODELS[name])
    attention = {"units": 6, "half_width": 2} | fields.pop("attention", {})
    sizes = {"encoder": EncoderConfig(units=4), "decoder": DecoderConfig(units=5)}
    return ModelConfig(
        **{"embedding": 7, "readout_units": 7, "attention": AttentionConfig(**attention)}
        | sizes
        | fields
    )


class Case:
    """A model with generic float32 parameters, compiled with its loss and gradient."""

    def __init__(self, name: str):
        self.config = build(name)
        self.model = Seq2Seq(self.config, SOURCE_SIZE, TARGET_SIZE)
        self.params = random_tree(self.config, SOURCE_SIZE, TARGET_SIZE)

        def loss(params, source, target):
            logits, alignments = self.model.apply({"params": params}, source, target)
            nll = jnp.sum(token_nll(logits, target), where=target > 0)
            return nll, (logits, alignments)

        self.compiled = quick_jit(jax.value_and_grad(loss, has_aux=True))

    @functools.cached_property
    def result(self):
        return self.compiled(self.params, SOURCE, TARGET)

    def logits(self, params=None, target=TARGET) -> np.ndarray:
        return np.asarray(self.compiled(params or self.params, SOURCE, target)[0][1][0])

    def noisy(self, rates: Rates):
        """Returns a function from one seed a row, source and target to logits under dropout."""
        compiled = quick_jit(
            lambda params, seeds, source, target: self.model.apply(
                {"params": params}, source, target, Noise(seeds, rates)
            )[0]
        )
        return functools.partial(compiled, self.params)


case = functools.cache(Case)


@models
def test_logits_alignments_and_loss_equal_the_oracle(name: str) -> None:
    (loss, (logits, alignments)), _ = case(name).result
    expected, weights = reference.decode_teacher_forced(
        to_oracle(case(name).params), case(name).config, SOURCE, SOURCE > 0, TARGET, TARGET > 0
    )
    real = TARGET > 0
    np.testing.assert_allclose(logits[real], expected[real], rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(alignments[real], weights[real], rtol=1e-5, atol=1e-6)
    assert loss == pytest.approx(reference.nll(expected, TARGET, real), rel=1e-5)


@pytest.mark.parametrize("name", ["rnnsearch", "luong", "conditional"])
def test_more_padding_changes_neither_the_loss_nor_any_gradient(name: str) -> None:
    (loss, (logits, alignments)), gradient = case(name).result
    source = np.pad(SOURCE, ((0, 1), (0, 3)))
    target = np.pad(TARGET, ((0, 1), (0, 2)))  # one row more, without anything in it
    (wider_loss, (wider_logits, wider_alignments)), wider = case(name).compiled(
        case(name).params, source, target
    )
    (rows, S), T = SOURCE.shape, TARGET.shape[1]
    assert wider_loss == pytest.approx(float(loss), rel=1e-6)
    real = TARGET > 0
    np.testing.assert_allclose(wider_logits[:rows, :T][real], logits[real], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        wider_alignments[:rows, :T, :S][real], alignments[real], rtol=1e-5, atol=1e-6
    )
    assert not np.any(wider_alignments[:, :, S:]) and not np.any(wider_alignments[rows:])
    for path, expected in named_leaves(gradient).items():
        np.testing.assert_allclose(
            named_leaves(wider)[path], expected, rtol=1e-4, atol=1e-5, err_msg=path
        )


@models
def test_the_parameters_are_those_of_the_contract(name: str) -> None:
    shapes = jax.eval_shape(lambda key: initial_params(case(name).model, key), jax.random.key(0))
    expected = parameter_shapes(case(name).config, SOURCE_SIZE, TARGET_SIZE)
    assert to_oracle(jax.tree.map(lambda leaf: leaf.shape, shapes)) == expected
    assert all(leaf.dtype == np.float32 for leaf in jax.tree.leaves(shapes))
    assert to_flax(to_oracle(case(name).params)) == case(name).params


def test_a_target_is_fed_shifted_by_one_from_the_begin_mark() -> None:
    made = case("seed")
    logits = made.logits()
    for step in range(TARGET.shape[1] - 1):
        changed = TARGET.copy()
        changed[0, step] = 8
        moved = np.any(made.logits(target=changed)[0] != logits[0], axis=-1)
        assert moved.tolist() == [i > step for i in range(TARGET.shape[1])]
    params = dict(made.params)
    params["target_embedding"] = params["target_embedding"].copy()
    params["target_embedding"][1] += 1  # BOS
    assert np.all(np.any(made.logits(params) != logits, axis=-1)[:, 0])


def test_the_source_reads_the_target_embedding_where_all_are_tied() -> None:
    config = dataclasses.replace(build("conditional"), tie_embeddings="all")
    tied = Seq2Seq(config, TARGET_SIZE, TARGET_SIZE)
    params = random_tree(config, TARGET_SIZE, TARGET_SIZE)
    assert "source_embedding" not in params and "W_o" not in params
    assert named_leaves(jax.eval_shape(lambda: initial_params(tied, jax.random.key(0)))).keys() == (
        named_leaves(params).keys()
    )
    apart = Seq2Seq(build("conditional"), TARGET_SIZE, TARGET_SIZE)
    both = params | {"source_embedding": params["target_embedding"]}

    def loss(model):
        def of(params):
            logits = apply(model, params, SOURCE, TARGET)[0]
            return logits.sum(), logits

        return of

    (ours, logits), (theirs, same) = (
        quick_jit(jax.grad(loss(model), has_aux=True))(params)
        for model, params in ((tied, params), (apart, both))
    )
    total = theirs["source_embedding"] + theirs["target_embedding"]
    np.testing.assert_allclose(ours["target_embedding"], total, rtol=1e-4, atol=1e-5)
    assert np.any(theirs["source_embedding"]) and np.any(theirs["target_embedding"])
    np.testing.assert_allclose(logits, same, rtol=1e-6)


def test_the_output_layer_is_the_target_embedding_where_they_are_tied() -> None:
    made = case("conditional")
    assert "W_o" not in made.params
    readout = np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
    logits = apply(made.model, made.params, readout, method="logits")
    expected = readout @ made.params["target_embedding"].T + made.params["b_w"]
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def seeds(step: int = 0, rows=(0, 1, 2)) -> jax.Array:
    return example_seeds(jax.random.key(5), jnp.asarray(step), jnp.asarray(rows))


def test_noise_without_rates_is_no_noise() -> None:
    made = case("rnnsearch")
    logits = made.noisy(Rates())(seeds(), SOURCE, TARGET)
    np.testing.assert_allclose(logits, made.logits(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("place", Rates._fields)
def test_each_rate_drops_something_and_a_row_keeps_its_own_masks(place: str) -> None:
    made = case("luong" if place == "layers" else "rnnsearch")
    noisy = made.noisy(Rates(**{place: 0.5}))
    dropped = noisy(seeds(), SOURCE, TARGET)
    assert np.all(np.abs(dropped - made.logits()).max(axis=(1, 2)) > 1e-3)
    assert np.any(dropped != noisy(seeds(step=1), SOURCE, TARGET))
    order = np.array([2, 0, 1])
    moved = noisy(seeds(rows=order), SOURCE[order], TARGET[order])
    np.testing.assert_allclose(moved, dropped[order], rtol=1e-5, atol=1e-6)


def test_parameters_follow_from_the_key() -> None:
    model = case("seed").model
    draw = quick_jit(lambda key: initial_params(model, key))
    first, again, other = (draw(jax.random.key(seed)) for seed in (0, 0, 1))
    for path, leaf in named_leaves(first).items():
        np.testing.assert_array_equal(leaf, named_leaves(again)[path])
        drawn = not path.endswith(("/b", "/b_u", "b_w"))  # biases start at zero
        assert np.any(leaf != named_leaves(other)[path]) == drawn, path


def test_readouts_by_their_equations() -> None:
    rng = np.random.default_rng(0)
    state, word, context, attentional = (
        rng.normal(size=(2, 3, size)).astype(np.float32) for size in (5, 7, 8, 7)
    )
    maxout = build("rnnsearch")
    params = random_tree(maxout, SOURCE_SIZE, TARGET_SIZE)["readout"]
    t = apply(Readout(maxout), params, state, word, context, None)
    assert t.shape == (2, 3, maxout.readout_size)
    for place in np.ndindex(2, 3):
        expected = reference.maxout(params, state[place], word[place], context[place])
        np.testing.assert_allclose(t[place], expected, rtol=1e-5, atol=1e-6)
    for readout, expected, given in (
        ("linear", state, None),
        ("attentional",) + (attentional,) * 2,
    ):
        config = dataclasses.replace(maxout, readout=readout)
        handed_on = apply(Readout(config), {}, state, word, context, given)
        np.testing.assert_array_equal(handed_on, expected)
        assert config.readout_size == expected.shape[-1]
