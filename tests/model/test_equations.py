import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference

from bahdanau_jax.model.equations import smoothed_nll, token_nll

ROWS, STEPS, VOCABULARY = 3, 4, 6
LENGTHS = np.array([4, 2, 1])
REAL = np.arange(STEPS) < LENGTHS[:, None]


def random_batch() -> tuple[jax.Array, jax.Array]:
    rng = np.random.default_rng(0)
    logits = rng.normal(0, 3, (ROWS, STEPS, VOCABULARY)).astype(np.float32)
    target = np.where(REAL, rng.integers(1, VOCABULARY, (ROWS, STEPS)), 0)
    return jnp.asarray(logits), jnp.asarray(target)


def test_known_values() -> None:
    logits = jnp.log(jnp.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]))
    target = jnp.array([1, 2])
    np.testing.assert_allclose(token_nll(logits, target), np.log([4, 1.25]), rtol=1e-6)
    uniform = (np.log(2 * 4 * 4) / 3, np.log(10 * 10 * 1.25) / 3)
    expected = 0.7 * np.log([4, 1.25]) + 0.3 * np.array(uniform)
    np.testing.assert_allclose(smoothed_nll(logits, target, 0.3), expected, rtol=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.9])
def test_sums_over_real_tokens_equal_the_oracle(smoothing: float) -> None:
    logits, target = random_batch()
    known = np.asarray(logits), np.asarray(target)
    ours = np.sum(smoothed_nll(logits, target, smoothing), where=REAL)
    assert ours == pytest.approx(reference.nll(*known, REAL, smoothing), rel=1e-6)
    one = np.zeros_like(REAL)
    one[1, 0] = True  # every token by itself, not only the sum
    ours = smoothed_nll(logits, target, smoothing)[1, 0]
    assert ours == pytest.approx(reference.nll(*known, one, smoothing), rel=1e-6)


def test_without_smoothing_it_is_the_negative_log_likelihood() -> None:
    logits, target = random_batch()
    np.testing.assert_array_equal(smoothed_nll(logits, target, 0.0), token_nll(logits, target))


def test_large_logits_neither_overflow_nor_change_the_loss() -> None:
    logits, target = random_batch()
    for smoothing in (0.0, 0.1):
        expected = smoothed_nll(logits, target, smoothing)
        shifted = smoothed_nll(logits + 2.0**14, target, smoothing)
        np.testing.assert_allclose(shifted, expected, atol=0.02)  # spacing of floats up there
    certain = token_nll(jnp.array([1e30, -1e30]), jnp.array(0))
    assert certain == 0


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_gradient_is_the_softmax_minus_the_smoothed_target(smoothing: float) -> None:
    logits, target = random_batch()
    gradient = jax.grad(lambda x: smoothed_nll(x, target, smoothing).sum())(logits)
    truth = np.eye(VOCABULARY)[np.asarray(target)] * (1 - smoothing) + smoothing / VOCABULARY
    expected = jax.nn.softmax(logits) - truth
    np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-6)
