import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bahdanau_jax.model.dropout import Noise, Place, Rates, dropout, example_seeds

STEPS, ROWS, SIZE = 40, 16, 50
ONES = np.ones((STEPS, ROWS, SIZE), np.float32)


def noise(root: int = 0, step: int = 0, rows=range(ROWS)) -> Noise:
    key = jax.random.key(root)
    return Noise(example_seeds(key, jnp.asarray(step), jnp.asarray(list(rows))), Rates())


def dropped(rate: float = 0.5, place: Place = Place.READOUT, x=ONES, **of_noise) -> np.ndarray:
    return np.asarray(dropout(jnp.asarray(x), rate, noise(**of_noise), place))


def test_without_noise_or_rate_it_is_the_identity() -> None:
    x = jnp.asarray(ONES)
    assert dropout(x, 0.5, None, Place.READOUT) is x
    assert dropout(x, 0.0, noise(), Place.READOUT) is x


def test_a_row_gets_the_same_mask_on_any_device_and_in_any_order() -> None:
    together = dropped()
    for first in range(0, ROWS, 4):  # as on four devices
        rows = range(first, first + 4)
        part = dropped(x=ONES[:, :4], rows=rows)
        np.testing.assert_array_equal(part, together[:, first : first + 4])
    backwards = dropped(rows=range(ROWS - 1, -1, -1))
    np.testing.assert_array_equal(backwards[:, ::-1], together)


def test_more_padding_leaves_the_masks_of_real_steps() -> None:
    longer = np.ones((STEPS + 7, ROWS, SIZE), np.float32)
    np.testing.assert_array_equal(dropped(x=longer)[:STEPS], dropped())


def test_the_values_have_no_say_in_the_mask() -> None:
    x = np.random.default_rng(0).normal(size=ONES.shape).astype(np.float32)
    np.testing.assert_allclose(dropped(x=x), np.where(dropped() > 0, 2 * x, 0), rtol=1e-6)


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.corrcoef(first.ravel() > 0, second.ravel() > 0)[0, 1])


# Deviations of a correlation of n independent pairs: one in a hundred thousand is beyond.
BEYOND = 4.5


def test_roots_steps_places_and_rows_are_independent() -> None:
    masks = [dropped(), dropped(root=1), dropped(step=1), dropped(rows=range(ROWS, 2 * ROWS))]
    masks += [dropped(place=place) for place in Place if place != Place.READOUT]
    limit = BEYOND / np.sqrt(ONES.size)
    for first, second in itertools.combinations(masks, 2):
        assert abs(correlation(first, second)) < limit
    rows = [dropped()[:, row] for row in range(ROWS)]
    limit = BEYOND / np.sqrt(STEPS * SIZE)
    for first, second in itertools.combinations(rows, 2):
        assert abs(correlation(first, second)) < limit


def test_the_same_key_step_and_place_give_the_same_mask_again() -> None:
    np.testing.assert_array_equal(dropped(step=3), dropped(step=3))


def test_components_and_steps_of_a_row_are_independent() -> None:
    mask = dropped()
    limit = BEYOND / np.sqrt(ONES.size)
    assert abs(correlation(mask[1:], mask[:-1])) < limit
    for distance in (1, 2, 3, 4, 8, 16, 32):
        near, far = mask[:, :, distance:], mask[:, :, :-distance]
        assert abs(correlation(near, far)) < BEYOND / np.sqrt(near.size)


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("place", list(Place))
def test_the_keep_rate_and_the_expectation_are_within_statistical_bounds(rate, place) -> None:
    mask = dropped(rate, place)
    kept = np.mean(mask > 0)
    deviation = np.sqrt(rate * (1 - rate) / ONES.size)
    assert abs(kept - (1 - rate)) < BEYOND * deviation
    assert abs(mask.mean(dtype=np.float64) - 1) < BEYOND * deviation / (1 - rate)
    np.testing.assert_allclose(mask[mask > 0], 1 / (1 - rate), rtol=1e-6)
    # No row, step or component is favoured: of each, the sum of squares is as it should be.
    for axis in ((0, 1), (0, 2), (1, 2)):
        shares = np.mean(mask > 0, axis=axis)
        each = rate * (1 - rate) * len(shares) / ONES.size
        square = np.sum((shares - (1 - rate)) ** 2) / each
        assert abs(square - len(shares)) < BEYOND * np.sqrt(2 * len(shares))


def test_the_gradient_is_that_of_the_mask() -> None:
    x = jnp.asarray(ONES)
    gradient = jax.grad(lambda x: dropout(x, 0.5, noise(), Place.ANNOTATIONS).sum())(x)
    np.testing.assert_array_equal(gradient, dropped(place=Place.ANNOTATIONS))


def test_seeds_differ_between_rows_steps_and_roots() -> None:
    seeds = [noise(root, step).seeds for root in range(3) for step in range(3)]
    assert len(np.unique(np.concatenate(seeds))) == 9 * ROWS
