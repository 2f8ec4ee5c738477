import dataclasses
import itertools
from typing import Any

import combinations
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from combinations import GROUPS, SOURCE_SIZE, TARGET_SIZE, Values, allowed, build
from compiling import quick_jit

from bahdanau_jax.model.attention import Memory
from bahdanau_jax.model.decoder import Decoder, covers
from bahdanau_jax.model.kernels import decoder_loop
from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params
from bahdanau_jax.special_ids import BOS

ROWS, POSITIONS, STEPS = 4, 5, 4
MASK = np.arange(POSITIONS) < np.array([5, 2, 3, 0])[:, None]
SOURCE = np.array([[4, 5, 6, 7, 2], [5, 2, 0, 0, 0], [3, 3, 2, 0, 0], [0, 0, 0, 0, 0]])
TARGET = np.array([[6, 4, 7, 2], [5, 2, 0, 0], [7, 2, 0, 0], [0, 0, 0, 0]])

CELLS = (("gru", "before"), ("gru", "after"), ("lstm", "before"))
MOMENTS = (
    ("previous", "none"),
    ("intermediate", "none"),
    ("current", "none"),
    ("current", "context"),
    ("current", "attentional"),
)
READOUTS = ("maxout", "attentional", "linear")  # tanh is outside the loop, as maxout is


def options(changes: Values) -> Values:
    first = {option: values[0] for group in GROUPS for option, values in group.items()}
    return combinations.joined([{**first, **changes}])


def every_combination() -> list[Values]:
    """Returns every score, moment of the query and cell that the loop computes."""
    scores = [
        values
        for values in combinations.group_members()[0]
        if values["attention.score"] != "fixed" and not values["attention.coverage"]
    ]
    made = []
    for place, (score, (query, fed), (cell, reset)) in enumerate(
        itertools.product(scores, MOMENTS, CELLS)
    ):
        readout = READOUTS[place % 3 if query == "previous" or fed == "context" else 0]
        readout = "attentional" if fed == "attentional" else readout
        values = {"attention.query": query, "feeding": fed, "readout": readout}
        made.append(options({**score, **values, "cell": cell, "gru_reset": reset}))
    return made


def pairs_of(values: Values) -> set[tuple]:
    """Returns the values that two options have together, for every two of what the loop reads."""
    names = (*GROUPS[0], "attention.query", "feeding", "cell", "gru_reset")
    return {(pair, *(values[name] for name in pair)) for pair in itertools.combinations(names, 2)}


def few_of(many: list[Values]) -> list[Values]:
    """Returns some that hold together every pair of values that the many hold.

    Each is, of all, one that adds most pairs to those of the ones before it.
    """
    few, missing = [], set().union(*map(pairs_of, many))
    while missing:
        few.append(max(many, key=lambda values: len(pairs_of(values) & missing)))
        missing -= pairs_of(few[-1])
    return few


EVERY = every_combination()
# All would take a quarter of an hour. Here each of a score's options is with every moment once.
MANY = [values for place, values in enumerate(EVERY) if place // 3 % 3 == place % 3]
FEW = few_of(MANY)


class Case:
    """A decoder alone, with parameters and inputs in float64."""

    def __init__(self, values: Values):
        self.config = build(values)
        rng = np.random.default_rng(0)
        width, config = self.config.annotation_units, self.config
        annotations = rng.normal(size=(ROWS, POSITIONS, width)) * MASK[:, :, None]
        self.inputs = (
            annotations,
            rng.normal(size=(STEPS, ROWS, config.embedding)),
            rng.normal(size=(ROWS, width)),
        )
        self.weights = [
            rng.normal(size=(STEPS, ROWS, n))
            for n in (config.decoder.units, width, POSITIONS, config.readout_units)
        ]
        shapes = jax.eval_shape(lambda: self.run(None, *self.inputs))[1]
        self.params = jax.tree.map(lambda leaf: rng.normal(size=leaf.shape), shapes)

    def run(self, params, annotations, embedded, final) -> Any:
        def decode(decoder):
            memory = Memory(annotations, decoder.keys(annotations), jnp.asarray(MASK), final)
            return decoder(memory, embedded)

        if params is None:
            return Decoder(self.config).init_with_output(jax.random.key(0), method=decode)
        return Decoder(self.config).apply(params, method=decode)

    def differentiated(self, kernels: str) -> Any:
        """Returns outputs, and the gradient of something that reads all of them."""
        self.config.kernels = kernels

        def scalar(params, *inputs):
            outputs = self.run(params, *inputs)
            parts = [
                jnp.sum(jnp.sin(x) * w)
                for x, w in zip(outputs, self.weights, strict=True)
                if x is not None
            ]
            return sum(parts), outputs

        return quick_jit(jax.value_and_grad(scalar, (0, 1, 2, 3), has_aux=True))(
            self.params, *self.inputs
        )


def check(values: Values) -> None:
    assert covers(build(values))
    with jax.enable_x64(True):
        case = Case(values)
        ours = case.differentiated("auto")
        theirs = case.differentiated("reference")
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        scale = np.abs(other).max()
        np.testing.assert_allclose(mine, other, rtol=0, atol=1e-9 * scale + 1e-12)


@pytest.mark.parametrize("values", FEW, ids=combinations.name)
def test_outputs_and_gradients_are_those_of_the_scanned_cell(values: Values) -> None:
    check(values)


@pytest.mark.slow
@pytest.mark.parametrize(
    "values", [values for values in MANY if values not in FEW], ids=combinations.name
)
def test_many_more_combinations_have_them_too(values: Values) -> None:
    check(values)


@pytest.mark.parametrize("query", ["previous", "intermediate", "current"])
def test_an_lstms_forget_bias_is_in_both(query: str) -> None:
    check(options({"cell": "lstm", "forget_bias": 1, "attention.query": query}))


def test_the_few_hold_every_pair_of_the_many() -> None:
    def held(chosen):
        return set().union(*map(pairs_of, chosen))

    assert held(FEW) == held(MANY) == held(EVERY)
    assert len(MANY) * 3 == len(EVERY)


def scaled_params(model, scale):
    params = initial_params(model, jax.random.key(0))
    return jax.tree.map(
        lambda p: scale * p + 0.01 * jnp.cos(jnp.arange(p.size)).reshape(p.shape), params
    )


def whole_gradient(model, params) -> Any:
    return quick_jit(gradient_of(model))(params)


def gradient_of(model) -> Any:
    def scalar(params):
        logits, alignments = model.apply({"params": params}, SOURCE, TARGET)
        weights = jnp.cos(jnp.arange(alignments.size, dtype=alignments.dtype))
        return jnp.sum(jnp.sin(logits)) + alignments.ravel() @ weights

    return jax.value_and_grad(scalar)


# With parameters six times as large the units saturate, and rounding grows from step to step.
@pytest.mark.parametrize(("scale", "bound"), [(1.0, 1e-5), (6.0, 5e-5)])
@pytest.mark.parametrize("score", ["additive", "general"])
def test_in_float32_the_whole_models_gradient_is_near_the_references(score, scale, bound):
    config = build(options({"attention.score": score}))
    model = Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)
    params = scaled_params(model, scale)
    ours = whole_gradient(model, params)
    config = dataclasses.replace(config, kernels="reference")
    theirs = whole_gradient(Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE), params)
    largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(theirs[1]))
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=bound, atol=bound * largest)


@pytest.mark.parametrize("score", ["additive", "dot"])
def test_annotations_and_keys_may_be_stored_in_bfloat16(score):
    config = build(options({"attention.score": score}))
    model = Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE, stored="bfloat16")
    params = scaled_params(model, 1.0)
    ours = whole_gradient(model, params)
    config = dataclasses.replace(config, kernels="reference")
    theirs = whole_gradient(model.clone(config=config), params)
    largest = max(np.abs(leaf).max() for leaf in jax.tree.leaves(theirs[1]))
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, other, rtol=0.02, atol=0.02 * largest)


def gradient_of_the_annotations(steps: int, kernels: str, score: str, dtype: Any) -> np.ndarray:
    """Returns the gradient of h_j through `steps` steps; both types hold the same values."""
    config = build(options({"attention.score": score}))
    config.kernels = kernels
    rng = np.random.default_rng(0)
    mask, width = jnp.ones((2, 6), bool), config.annotation_units
    annotations = rng.normal(size=(2, 6, width)).astype(np.float32)
    embedded = rng.normal(size=(steps, 2, config.embedding)).astype(np.float32)
    final = jnp.asarray(rng.normal(size=(2, width)), jnp.float32)
    weights = rng.uniform(0.5, 1.5, size=(steps, 2, width)).astype(np.float32)

    def stored(x):
        return x.astype(jnp.bfloat16).astype(dtype)

    def decode(decoder, annotations):
        keys = stored(decoder.keys(annotations))
        return decoder(Memory(stored(annotations), keys, mask, final), embedded)

    model = Decoder(config)
    params = model.init(jax.random.key(1), annotations, method=decode)

    def scalar(annotations):
        outputs: Any = model.apply(params, annotations, method=decode)
        return (outputs.context * weights).sum() / steps

    return np.asarray(quick_jit(jax.grad(scalar))(annotations))


@pytest.mark.parametrize("score", ["additive", "general"])
@pytest.mark.parametrize("kernels", ["auto", "reference"])
@pytest.mark.parametrize("steps", [64, 512])
def test_gradients_are_summed_in_float32_whatever_is_stored(steps, kernels, score):
    exact = gradient_of_the_annotations(steps, kernels, score, jnp.float32)
    rounded = gradient_of_the_annotations(steps, kernels, score, jnp.bfloat16)
    assert np.abs(rounded - exact).max() < 4e-3 * np.abs(exact).max()


@pytest.mark.parametrize("kernels", ["auto", "reference"])
def test_the_field_chooses_between_the_two_loops(kernels, monkeypatch):
    ran = []
    monkeypatch.setattr(decoder_loop, "_loop", lambda *_: ran.append(True) or 1 / 0)
    config = build(options({}))
    config.kernels = kernels
    model = Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)
    try:
        jax.eval_shape(lambda: initial_params(model, jax.random.key(0)))
    except ZeroDivisionError:
        assert ran
    assert bool(ran) == (kernels == "auto")


def test_it_covers_nothing_whose_equations_it_does_not_have():
    others = (
        ("attention.score", "fixed"),
        ("attention.window", "local_m"),
        ("attention.coverage", True),
        ("decoder.layers", 2),
        ("layer_norm", "decoder"),
        ("layer_norm", "both"),
    )
    assert covers(build(options({}))) and covers(build(options({"layer_norm": "encoder"})))
    for option, value in others:
        config = build(options({option: value}))
        assert allowed(config), option
        assert not covers(config), option


def test_nothing_of_the_size_of_the_tanh_is_kept_for_the_backward_pass():
    values = options({"attention.score": "additive"})
    config = build(values)
    config.attention.units = 11  # no other array is [B, S, 11]
    model = Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)
    params = scaled_params(model, 1.0)
    jaxpr = str(jax.make_jaxpr(gradient_of(model))(params))
    assert f"[{ROWS},{POSITIONS},11]" in jaxpr
    assert f"[{STEPS},{ROWS},{POSITIONS},11]" not in jaxpr


@pytest.mark.parametrize("size", [0.1, 1.0, 40.0, 200.0])
def test_a_query_and_a_key_may_cancel_at_any_size(size):
    """tanh(200 - 199) is far from one, though tanh(200) and tanh(-199) are not."""
    keys = jnp.linspace(-size, size, 21).reshape(1, 7, 3)
    query, v_a = size * jnp.asarray([[1.0, -1.0, 0.5]]), jnp.ones(3)
    energies = decoder_loop._tanh_energies(query, keys, v_a, jnp.zeros(keys.shape))
    wide = np.asarray(query, np.float64)[:, None, :] + np.asarray(keys, np.float64)
    np.testing.assert_allclose(energies, np.tanh(wide).sum(-1), atol=1e-4)


@pytest.mark.parametrize("score", ["additive", "concat"])
def test_large_keys_and_queries_give_the_same_logits_in_training_and_in_decoding(score):
    config = build(options({"attention.score": score}))
    model = Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)
    params = scaled_params(model, 1.0)
    scorer = params["decoder"]["attention_cell"]["attention"]["score"]
    for name in {"W_a", "U_a"} & set(scorer):
        signs = jnp.where(jnp.arange(scorer[name].size) % 3 == 1, -1.0, 1.0)
        scorer[name] = 1000.0 * signs.reshape(scorer[name].shape)
    variables: Any = {"params": params}
    trained, _ = model.apply(variables, SOURCE, TARGET)
    memory: Any = model.apply(variables, SOURCE, method="encode")
    assert np.abs(memory.keys).max() > 200
    state: Any = model.apply(variables, memory, method="initial_state")
    previous = np.full(ROWS, BOS)
    for i in range(STEPS):
        step: Any = model.apply(variables, state, previous, memory, method="decode_step")
        state, logits, _ = step
        np.testing.assert_allclose(trained[:, i], logits, rtol=1e-3, atol=1e-3)
        previous = TARGET[:, i]


def test_replicas_have_each_their_own_gradient():
    config = build(options({}))
    model = Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)
    both = [scaled_params(model, scale) for scale in (1.0, 2.0)]
    stacked: Any = jax.tree.map(lambda *x: jnp.stack(x), *both)
    ours: Any = jax.vmap(lambda p: whole_gradient(model, p)[1])(stacked)
    for number, params in enumerate(both):
        _, theirs = whole_gradient(model, params)
        for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(mine[number], other, rtol=1e-4, atol=1e-5)
