from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import quick_jit

from bahdanau_jax.config import AttentionConfig, ModelConfig
from bahdanau_jax.model import kernels
from bahdanau_jax.model.attention import fused_kernel_covers
from bahdanau_jax.model.equations import context_vector, masked_softmax, tanh_energies
from bahdanau_jax.model.kernels.fused_attention import fused_attention
from bahdanau_jax.model.seq2seq import Seq2Seq, initial_params


def plain(query, keys, v_a, annotations, mask):
    alignment = masked_softmax(tanh_energies(query, keys, v_a), mask)
    return context_vector(alignment, annotations), alignment


def arguments(B, S, A, C) -> Any:
    rng = np.random.default_rng(B + S)
    shapes = (B, A), (B, S, A), (A,), (B, S, C)
    floats = [jnp.asarray(rng.normal(size=shape), jnp.float32) for shape in shapes]
    lengths = rng.integers(1, S + 1, B)
    lengths[0] = S
    if B > 1:
        lengths[-1] = 0  # nothing to attend to
    return floats, jnp.asarray(np.arange(S)[None, :] < lengths[:, None])


def differentiated(function, floats, mask) -> Any:
    def scalar(*floats):
        context, alignment = function(*floats, mask)
        weights = jnp.cos(jnp.arange(context.size, dtype=jnp.float32)).reshape(context.shape)
        return jnp.sum(weights * context) + jnp.sum(jnp.sin(3 * alignment)), (context, alignment)

    return quick_jit(jax.value_and_grad(scalar, argnums=(0, 1, 2, 3), has_aux=True))(*floats)


def assert_same(ours, theirs):
    for mine, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("sizes", [(3, 8, 16, 4), (2, 5, 7, 3), (1, 1, 1, 1), (4, 13, 33, 17)])
def test_the_kernel_is_the_plain_form_forwards_and_backwards(sizes):
    floats, mask = arguments(*sizes)
    ours = differentiated(fused_attention, floats, mask)
    assert_same(ours, differentiated(plain, floats, mask))
    if not mask[-1].any():
        (_, (context, alignment)), gradient = ours
        assert not context[-1].any()
        assert not alignment[-1].any()
        assert not gradient[1][-1].any()


def test_a_model_runs_the_kernel_once_it_is_measured_here_and_not_before(monkeypatch):
    config = ModelConfig(embedding=3, readout_units=4)
    config.encoder.units, config.decoder.units, config.attention.units = 3, 5, 6
    source, target = jnp.array([[4, 5, 2], [6, 2, 0]]), jnp.array([[5, 2], [2, 0]])
    params = initial_params(Seq2Seq(config, 8, 9), jax.random.key(0))

    def gradient() -> Any:
        model = Seq2Seq(config, 8, 9)
        loss = lambda p: model.apply({"params": p}, source, target, None, 0.0, method="loss_sums")  # noqa: E731
        return quick_jit(jax.value_and_grad(lambda p: loss(p)[0]))(params), str(
            jax.make_jaxpr(lambda p: loss(p)[0])(params)
        )

    theirs, without = gradient()
    fused = kernels.KERNELS["fused_attention"]._replace(platforms=(kernels.platform(),))
    loop = kernels.KERNELS["decoder_loop"]._replace(platforms=())
    table = kernels.KERNELS | {"fused_attention": fused, "decoder_loop": loop}
    monkeypatch.setattr(kernels, "KERNELS", table)
    ours, within = gradient()
    assert ("pallas_call" in within, "pallas_call" in without) == (True, False)
    assert_same(ours, theirs)


def test_it_covers_no_attention_whose_equations_it_does_not_have():
    assert fused_kernel_covers(AttentionConfig(bias=True, normalize=True))
    for other in (
        AttentionConfig(score="concat"),
        AttentionConfig(window="local_m"),
        AttentionConfig(coverage=True),
        AttentionConfig(normalize_keys=True),
    ):
        assert not fused_kernel_covers(other), other
