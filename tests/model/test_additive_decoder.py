from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from combinations import GROUPS, SOURCE_SIZE, TARGET_SIZE, allowed, build, joined
from compiling import quick_jit

from bahdanau_jax.model.kernels import additive_decoder
from bahdanau_jax.model.kernels.additive_decoder import covers
from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params

SOURCE = np.array([[4, 5, 6, 7, 2], [5, 2, 0, 0, 0], [3, 3, 2, 0, 0], [0, 0, 0, 0, 0]])
TARGET = np.array([[6, 4, 7, 2], [5, 2, 0, 0], [7, 2, 0, 0], [0, 0, 0, 0]])

VARIANTS = {
    "the paper": {},
    "reset after": {"gru_reset": "after"},
    "linear": {"readout": "linear", "gru_reset": "after"},
    "attentional": {"readout": "attentional"},
    "bias, normalised": {"attention.bias": True, "attention.normalize": True},
}


def options(changes):
    first = {option: values[0] for group in GROUPS for option, values in group.items()}
    return joined([{**first, "readout": "maxout", **changes}])


def differentiated(model, params) -> Any:
    """Returns outputs, and the gradient of something that reads all of them."""

    def scalar(params):
        logits, alignments = model.apply({"params": params}, SOURCE, TARGET)
        weights = jnp.cos(jnp.arange(alignments.size, dtype=alignments.dtype))
        return jnp.sum(jnp.sin(logits)) + alignments.ravel() @ weights, (logits, alignments)

    return quick_jit(jax.value_and_grad(scalar, has_aux=True))(params)


def scaled_params(model, scale):
    params = initial_params(model, jax.random.key(0))
    return jax.tree.map(
        lambda p: scale * p + 0.01 * jnp.cos(jnp.arange(p.size)).reshape(p.shape), params
    )


@pytest.mark.parametrize("scale", [1.0, 6.0])
@pytest.mark.parametrize("name", VARIANTS)
def test_outputs_and_gradients_are_those_of_the_scanned_cell(name, scale, monkeypatch):
    config = build(options(VARIANTS[name]))
    assert covers(config)
    with jax.enable_x64(True):
        model = Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)
        params = jax.tree.map(lambda p: p.astype(jnp.float64), scaled_params(model, scale))
        ours = differentiated(model, params)
        monkeypatch.setattr(additive_decoder, "covers", lambda config: False)
        theirs = differentiated(model, params)
    ours, theirs = jax.tree.map(np.asarray, (ours, theirs))
    assert min(np.abs(g).max() for g in jax.tree.leaves(theirs[1])) > 0
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)


def test_it_covers_nothing_whose_equations_it_does_not_have():
    others = {
        "attention.score": "dot",
        "attention.query": "intermediate",
        "attention.window": "local_m",
        "attention.coverage": True,
        "cell": "lstm",
        "decoder.layers": 2,
        "layer_norm": True,
    }
    assert covers(build(options({})))
    for option, value in others.items():
        config = build(options({option: value}))
        assert allowed(config), option
        assert not covers(config), option


@pytest.mark.parametrize("query", [0.0, 1e-4, 3.0, -20.0, 42.0])
def test_the_ratio_gives_the_tanh(query):
    keys = jnp.linspace(-42.0, 42.0, 2001)[None, :, None]
    ratio = additive_decoder._ratio(jnp.full((1, 1), query), additive_decoder._power(keys))
    expected = np.tanh(query + np.asarray(keys, np.float64))
    np.testing.assert_allclose(1 - 2 * ratio, expected, rtol=0, atol=3e-6)


def test_replicas_have_each_their_own_gradient():
    config = build(options({}))
    model = Seq2Seq(config, SOURCE_SIZE, TARGET_SIZE)
    both = [scaled_params(model, scale) for scale in (1.0, 2.0)]
    stacked: Any = jax.tree.map(lambda *x: jnp.stack(x), *both)
    ours: Any = jax.vmap(lambda p: differentiated(model, p)[1])(stacked)
    for number, params in enumerate(both):
        _, theirs = differentiated(model, params)
        for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(mine[number], other, rtol=1e-4, atol=1e-5)
