from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import quick_jit

from bahdanau_jax.model.equations import smoothed_nll, token_nll
from bahdanau_jax.model.kernels import output_loss as module
from bahdanau_jax.model.kernels.output_loss import output_loss, output_nll

TOKENS, READOUT, VOCABULARY = 7, 5, 11


def arguments() -> Any:
    rng = np.random.default_rng(0)
    shapes = (TOKENS, READOUT), (READOUT, VOCABULARY), (VOCABULARY,)
    readout, weights, bias = (rng.normal(0, 2, shape).astype(np.float32) for shape in shapes)
    target = rng.integers(0, VOCABULARY, TOKENS).astype(np.int32)
    real = np.arange(TOKENS) % 3 != 1
    return tuple(map(jnp.asarray, (readout, weights, bias, target, real)))


def plain(readout, weights, bias, target, real, smoothing):
    logits = readout @ weights + bias[None, :]
    loss = jnp.sum(smoothed_nll(logits, target, smoothing), where=real)
    return loss, jnp.sum(token_nll(jax.lax.stop_gradient(logits), target), where=real)


def gradients(function, smoothing) -> Any:
    differentiated = jax.value_and_grad(
        lambda *a: function(*a, smoothing), argnums=(0, 1, 2), has_aux=True
    )
    return quick_jit(differentiated)(*arguments())


def assert_same(ours, theirs):
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-5)


@pytest.fixture(params=[2**25, 3 * VOCABULARY, VOCABULARY], ids=["one", "chunks", "tokens"])
def chunks(request, monkeypatch):
    """All tokens at once, three at a time (seven leave a ragged chunk), one at a time."""
    monkeypatch.setattr(module, "_LOGITS", request.param)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.usefixtures("chunks")
def test_sums_and_gradients_are_those_of_the_plain_form(smoothing):
    assert_same(gradients(output_loss, smoothing), gradients(plain, smoothing))
    value = output_loss(*arguments(), smoothing=smoothing)  # not differentiated: another path
    assert_same(value, plain(*arguments(), smoothing=smoothing))


@pytest.mark.usefixtures("chunks")
def test_the_nll_of_every_token_is_that_of_its_logits():
    readout, weights, bias, target, _ = arguments()
    expected = token_nll(readout @ weights + bias[None, :], target)
    assert_same(output_nll(readout, weights, bias, target), expected)


def test_a_cotangent_scales_the_gradient_and_the_nll_hands_none_on():
    *floats, target, real = arguments()

    def scaled(*x):
        loss, nll = output_loss(*x, target=target, real=real, smoothing=0.1)
        return 3.0 * loss + 7.0 * nll

    ours = jax.grad(scaled, argnums=(0, 1, 2))(*floats)
    (_, theirs) = gradients(plain, 0.1)
    assert_same(ours, jax.tree.map(lambda g: 3.0 * g, theirs))


def test_replicas_have_each_their_own_loss_and_gradient():
    readout, weights, bias, target, real = arguments()

    def gradient(weights):
        return jax.grad(lambda w: output_loss(readout, w, bias, target, real, 0.0)[0])(weights)

    both = jnp.stack([weights, 2 * weights])
    assert_same(jax.vmap(gradient)(both), jnp.stack([gradient(w) for w in both]))


def test_replicas_may_differ_in_smoothing():
    readout, *others = arguments()

    def gradient(smoothing):
        return jax.grad(lambda t: output_loss(t, *others, smoothing=smoothing)[0])(readout)

    both = jnp.array([0.0, 0.3])
    assert_same(jax.vmap(gradient)(both), jnp.stack([gradient(0.0), gradient(0.3)]))


def test_the_logits_of_a_whole_batch_never_exist_at_once(monkeypatch):
    monkeypatch.setattr(module, "_LOGITS", 3 * VOCABULARY)
    differentiated = jax.grad(lambda *a: output_loss(*a, smoothing=0.0)[0])
    jaxpr = str(jax.make_jaxpr(differentiated)(*arguments()))
    assert f"[{TOKENS},{VOCABULARY}]" not in jaxpr
    assert f"[3,{VOCABULARY}]" in jaxpr
