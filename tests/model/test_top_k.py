import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from bahdanau_jax.model.kernels.top_k import LEAST, largest


@pytest.mark.parametrize("size", [40, LEAST, 1000, 1237, 8000])
@pytest.mark.parametrize("count", [1, 5, 12])
def test_it_finds_what_top_k_finds(size, count):
    x = np.random.default_rng(size + count).normal(size=(2, 3, size)).astype(np.float32)
    x[0, 1, : size // 2] = -np.inf
    values, places = jax.jit(largest, static_argnums=1)(x, count)
    expected, where = lax.top_k(x, count)
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(places, where)


def test_all_of_the_largest_may_lie_in_one_column_or_at_the_end():
    x = np.zeros((3, 1000), np.float32)
    columns = 64  # for five of a thousand
    x[0, columns * np.arange(5) + 7] = [1, 2, 3, 4, 5]
    x[1, -5:] = [5, 1, 4, 2, 3]
    x[2, :5] = [3, 5, 1, 4, 2]
    values, places = largest(jnp.asarray(x), 5)
    np.testing.assert_array_equal(values, [[5, 4, 3, 2, 1]] * 3)
    np.testing.assert_array_equal(places[0], columns * np.arange(4, -1, -1) + 7)
    np.testing.assert_array_equal(places[1], [995, 997, 999, 998, 996])
    np.testing.assert_array_equal(places[2], [1, 3, 0, 4, 2])


def test_of_two_equal_numbers_the_first_comes_first():
    x = np.zeros((1, 1000), np.float32)
    x[0, [900, 17, 500]] = 2
    np.testing.assert_array_equal(largest(jnp.asarray(x), 3)[1], [[17, 500, 900]])
