import combinations
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from combinations import Values
from flax_tree import apply
from jax.test_util import check_grads
from numpy.typing import DTypeLike
from reference_parameters import attention_shapes, random_parameters

from bahdanau_jax.config import ModelConfig
from bahdanau_jax.model import equations, scores
from bahdanau_jax.model.initialization import initialization

ROWS, POSITIONS, WIDTH = 3, 6, 8
VARIANTS = {
    "-".join(str(v) if isinstance(v, str) else o for o, v in values.items() if v and v != "none"): (
        values
    )
    for values in combinations.group_members()[0]
    if values["attention.score"] != "fixed"  # it has no energies
}
variants = pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS.keys())


def model(values: Values) -> ModelConfig:
    return combinations.build({"encoder.bidirectional": True} | values)


def module(config: ModelConfig) -> scores.Score:
    kind = scores.score_class(config.attention.score)
    return kind(config.attention, config.decoder.units, WIDTH, initialization("glorot"))


def random_inputs(config: ModelConfig, dtype: DTypeLike = np.float32):
    """Parameters, query [B, H], annotations [B, S, C] and coverage [B, S] or None."""
    rng = np.random.default_rng(0)
    params = random_parameters(attention_shapes(config, WIDTH), rng)
    arrays = (
        rng.normal(size=(ROWS, config.decoder.units)),
        rng.normal(size=(ROWS, POSITIONS, WIDTH)),
        rng.uniform(size=(ROWS, POSITIONS)),
    )
    params, (query, annotations, coverage) = jax.tree.map(
        lambda a: a.astype(dtype), (params, arrays)
    )
    return params, query, annotations, coverage if config.attention.coverage else None


def energies(score: scores.Score, params, query, annotations, coverage=None):
    keys = apply(score, params, annotations, method="keys")
    return apply(score, params, query, keys, coverage)


@variants
def test_the_energies_equal_the_oracle(values: Values) -> None:
    config = model(values)
    params, query, annotations, coverage = random_inputs(config)
    ours = energies(module(config), params, query, annotations, coverage)
    past = np.zeros((ROWS, POSITIONS)) if coverage is None else coverage
    for row in range(ROWS):
        expected = reference.energies(
            reference.float64(params), config.attention, query[row], annotations[row], past[row]
        )
        np.testing.assert_allclose(ours[row], expected, rtol=1e-5, atol=1e-5)


@variants
def test_the_gradient_equals_finite_differences(values: Values) -> None:
    config = model(values)
    score = module(config)
    with jax.enable_x64(True):
        params, query, annotations, coverage = random_inputs(config, np.float64)

        def f(params, query, annotations):
            return energies(score, params, query, annotations, coverage)

        check_grads(f, (params, query, annotations), order=1, modes=["rev"], atol=1e-6, rtol=1e-5)


@variants
def test_every_parameter_of_the_contract_is_declared_and_no_other(values: Values) -> None:
    config = model(values)
    query, keys = jnp.zeros((1, config.decoder.units)), jnp.zeros((1, 2, WIDTH))
    declared = jax.eval_shape(
        lambda key: module(config).init(key, query, keys, method=lambda m, q, h: m(q, m.keys(h))),
        jax.random.key(0),
    )
    shapes = jax.tree.map(lambda leaf: leaf.shape, declared.get("params", {}))
    assert shapes == attention_shapes(config, WIDTH)


@pytest.mark.parametrize("options", [{}, {"bias": True}, {"normalize": True}])
def test_concat_is_additive_with_one_matrix_split_in_two(options: dict) -> None:
    additive = model({f"attention.{o}": v for o, v in options.items()})
    concat = model(
        {"attention.score": "concat"} | {f"attention.{o}": v for o, v in options.items()}
    )
    params, query, annotations, _ = random_inputs(additive)
    stacked = {name: value for name, value in params.items() if name != "U_a"}
    stacked["W_a"] = np.concatenate([params["W_a"], params["U_a"]])
    np.testing.assert_allclose(
        energies(module(concat), stacked, query, annotations),
        energies(module(additive), params, query, annotations),
        rtol=1e-6,
    )


def test_concat_identity_is_additive_with_the_identity_on_the_annotation() -> None:
    config = model({"attention.score": "concat_identity"})
    params, query, annotations, _ = random_inputs(config)
    additive = model({})
    additive.attention.units = WIDTH
    full = params | {"U_a": np.eye(WIDTH, dtype=np.float32)}
    np.testing.assert_allclose(
        energies(module(config), params, query, annotations),
        energies(module(additive), full, query, annotations),
        rtol=1e-6,
    )


def test_general_is_dot_where_its_matrix_is_the_identity() -> None:
    dot = model({"attention.score": "dot"})
    general = model({"attention.score": "general"})
    general.decoder.units = dot.decoder.units
    _, query, annotations, _ = random_inputs(dot)
    np.testing.assert_allclose(
        energies(module(general), {"W_a": np.eye(WIDTH)}, query, annotations),
        energies(module(dot), {}, query, annotations),
        rtol=1e-6,
    )


@pytest.mark.parametrize("score", ["additive", "concat"])
def test_a_normalised_vector_has_the_length_g_whatever_v_a_is(score: str) -> None:
    config = model({"attention.score": score, "attention.normalize": True})
    params, query, annotations, _ = random_inputs(config)
    first = energies(module(config), params, query, annotations)
    longer = energies(module(config), params | {"v_a": 7 * params["v_a"]}, query, annotations)
    np.testing.assert_allclose(longer, first, rtol=1e-5)
    vector = apply(module(config), params, method="vector")
    assert np.linalg.norm(vector) == pytest.approx(abs(params["g"]), rel=1e-6)


@pytest.mark.parametrize(("score", "length"), [("dot", 8), ("general", 8), ("projected", 6)])
def test_scales_divide_by_the_root_of_the_products_length_or_multiply(score, length) -> None:
    plain = model({"attention.score": score})
    params, query, annotations, _ = random_inputs(plain)
    unscaled = energies(module(plain), params, query, annotations)
    root = model({"attention.score": score, "attention.scale": "sqrt"})
    scaled = energies(module(root), params, query, annotations)
    np.testing.assert_allclose(scaled * np.sqrt(length), unscaled, rtol=1e-5, atol=1e-6)
    linear = model({"attention.score": score, "attention.scale": "linear"})
    scaled = energies(module(linear), params, query, annotations)
    np.testing.assert_allclose(scaled * length, unscaled, rtol=1e-5, atol=1e-6)
    learned = model({"attention.score": score, "attention.scale": "learned"})
    scaled = energies(module(learned), params | {"scale": np.float32(3)}, query, annotations)
    np.testing.assert_allclose(scaled, 3 * unscaled, rtol=1e-5, atol=1e-6)


def test_a_bias_of_the_keys_would_change_no_weight_and_that_of_the_query_does() -> None:
    plain = model({"attention.score": "projected"})
    params, query, annotations, _ = random_inputs(plain)
    biased = module(model({"attention.score": "projected", "attention.bias": True}))
    b = np.random.default_rng(1).normal(size=plain.attention.units).astype(np.float32)
    without = energies(module(plain), params, query, annotations)
    on_query = energies(biased, params | {"b": b}, query, annotations)
    # (W_a q + b)ᵀ (U_a h + b_k): what b_k adds is one number for all positions of a step.
    keys = annotations @ params["U_a"]
    added = np.einsum("ba,bsa->bs", query @ params["W_a"] + b, keys + 3 * b[::-1])
    np.testing.assert_allclose(
        jax.nn.softmax(added), jax.nn.softmax(on_query), rtol=1e-3, atol=1e-5
    )
    assert not np.allclose(jax.nn.softmax(on_query), jax.nn.softmax(without), atol=1e-2)


@pytest.mark.parametrize("score", ["additive", "concat", "dot", "general", "projected"])
def test_normalised_keys_leave_no_trace_of_the_annotations_size(score: str) -> None:
    config = model({"attention.score": score, "attention.normalize_keys": True})
    params, query, annotations, _ = random_inputs(config)
    large = energies(module(config), params, 1e3 * query, 1e3 * annotations)
    larger = energies(module(config), params, 5e3 * query, 3e3 * annotations)
    np.testing.assert_allclose(large, larger, rtol=1e-4, atol=1e-4)

    def total(annotations):  # zero at padding
        return jnp.sum(jnp.sin(apply(module(config), params, annotations, method="keys")))

    gradient = jax.grad(total)(np.where(np.arange(POSITIONS)[:, None] < 4, annotations, 0))
    assert np.all(np.isfinite(gradient))


def test_recomputing_the_tanh_changes_no_gradient() -> None:
    rng = np.random.default_rng(0)
    arguments = [
        jnp.asarray(rng.normal(size=shape), jnp.float32)
        for shape in ((ROWS, 6), (ROWS, POSITIONS, 6), (6,))
    ]
    gradients = [
        jax.grad(lambda *a, f=f: jnp.sum(jnp.sin(f(*a))), argnums=(0, 1, 2))(*arguments)
        for f in (equations.tanh_energies, scores.recomputed_tanh_energies)
    ]
    for plain, recomputed in zip(*gradients, strict=True):
        np.testing.assert_array_equal(recomputed, plain)


def test_the_tanh_is_not_kept_for_the_backward_pass() -> None:
    rng = np.random.default_rng(0)
    arguments = [jnp.asarray(rng.normal(size=shape)) for shape in ((2, 5), (2, 3, 5), (5,))]

    def kept(f) -> list[jax.Array]:
        _, pullback = jax.vjp(f, *arguments)
        return [leaf for leaf in jax.tree.leaves(pullback) if leaf.shape == (2, 3, 5)]

    (only,) = kept(scores.recomputed_tanh_energies)
    np.testing.assert_array_equal(only, arguments[1])  # the keys, which exist anyway
    assert any(not np.array_equal(leaf, arguments[1]) for leaf in kept(equations.tanh_energies))


def test_fixed_and_unknown_names_are_no_scores() -> None:
    for name in ("fixed", "telepathy"):
        with pytest.raises(ValueError, match=name):
            scores.score_class(name)
