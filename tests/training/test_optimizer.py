import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from bahdanau_jax.config import TrainConfig
from bahdanau_jax.training.optimizer import make_optimizer, make_schedule, with_plateau_rate

PARAMS = {
    "a": np.array([[1.0, -2.0], [0.5, 3.0]], np.float32),
    "b": {"c": np.array([0.25], np.float32), "d": np.float32(4.0)},
}
GRADIENT = {
    "a": np.array([[3.0, -4.0], [0.0, 12.0]], np.float32),
    "b": {"c": np.array([0.0], np.float32), "d": np.float32(84.0)},
}  # of norm 85


def updates(train: TrainConfig, count: int = 1, gradient=GRADIENT, steps: int = 10) -> list:
    """Returns the updates of the first steps, always with the same gradient."""
    optimizer = make_optimizer(train, steps)
    state, made = optimizer.init(PARAMS), []
    for _ in range(count):
        update, state = optimizer.update(gradient, state, PARAMS)
        made.append(update)
    return made


def rates(train: TrainConfig, steps: int, at: list[int]) -> list[float]:
    schedule = make_schedule(train, steps)
    return [np.asarray(schedule(step)).item() for step in at]


@pytest.mark.parametrize(
    ("schedule", "warmup", "at", "expected"),
    [
        ("constant", 0, [0, 7, 100], [2, 2, 2]),
        ("constant", 4, [0, 1, 2, 3, 4, 50], [0, 0.5, 1, 1.5, 2, 2]),
        ("linear", 0, [0, 5, 10, 15, 20, 30], [2, 1.5, 1, 0.5, 0, 0]),
        ("linear", 4, [0, 2, 4, 12, 20], [0, 1, 2, 1, 0]),
        ("cosine", 0, [0, 5, 10, 15, 20], [2, 1 + 0.5**0.5, 1, 1 - 0.5**0.5, 0]),
        ("cosine", 4, [0, 2, 4, 12, 20, 25], [0, 1, 2, 1, 0, 0]),
        ("inverse_sqrt", 4, [0, 2, 4, 9, 16, 100], [0, 1, 2, 4 / 3, 1, 0.4]),
        ("inverse_sqrt", 0, [0, 3, 99], [2, 1, 0.2]),
    ],
)
def test_known_learning_rates_of_a_run_of_twenty_steps(schedule, warmup, at, expected) -> None:
    train = TrainConfig(schedule=schedule, warmup_steps=warmup, learning_rate=2.0)
    np.testing.assert_allclose(rates(train, 20, at), expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("epochs", "warmup", "at", "expected"),
    [
        # Two steps an epoch: five epochs at the full rate, then half of it for each epoch begun.
        (10.0, 0, [0, 9, 10, 11, 12, 13, 14, 19], [2, 2, 1, 1, 0.5, 0.5, 0.25, 0.0625]),
        (10.0, 4, [0, 2, 4, 9, 10, 12], [0, 1, 2, 2, 1, 0.5]),
        (0.0, 0, [0, 4, 5, 6, 7], [2, 2, 1, 0.5, 0.25]),  # counted by steps, as the run is
    ],
)
def test_halving_counts_in_the_unit_of_the_runs_length(epochs, warmup, at, expected) -> None:
    train = TrainConfig(schedule="halving", epochs=epochs, warmup_steps=warmup, learning_rate=2.0)
    train.decay_start = 5.0
    np.testing.assert_allclose(rates(train, 20, at), expected, rtol=1e-6)


def test_halving_by_another_factor_at_another_pace() -> None:
    train = TrainConfig(schedule="halving", learning_rate=1.0, decay_factor=0.8)
    train.decay_start, train.decay_every = 4.0, 3.0
    wanted = [1, 1, 0.8, 0.8, 0.64, 0.512]
    np.testing.assert_allclose(rates(train, 20, [0, 3, 4, 6, 7, 10]), wanted, rtol=1e-6)


@pytest.mark.parametrize("schedule", ["constant", "linear", "cosine", "inverse_sqrt", "halving"])
@pytest.mark.parametrize("warmup", [0, 5])
def test_rates_rise_to_the_peak_and_then_never_rise(schedule: str, warmup: int) -> None:
    train = TrainConfig(schedule=schedule, warmup_steps=warmup, learning_rate=0.3)
    values = rates(train, 40, list(range(45)))
    assert values.index(max(values)) == warmup and max(values) == pytest.approx(0.3)
    assert all(a < b for a, b in itertools.pairwise(values[: warmup + 1]))
    assert all(a >= b for a, b in itertools.pairwise(values[warmup:]))


@pytest.mark.parametrize("optimizer", ["adam", "adadelta", "sgd"])
def test_the_schedule_sets_the_size_of_each_update(optimizer: str) -> None:
    common = {"optimizer": optimizer, "clip_norm": 0.0, "learning_rate": 0.5}
    constant = updates(TrainConfig(**common), count=4)
    scheduled = updates(TrainConfig(**common, schedule="linear"), count=4)
    for step, (full, less) in enumerate(zip(constant, scheduled, strict=True)):
        for expected, update in zip(*map(jax.tree.leaves, (full, less)), strict=True):
            np.testing.assert_allclose(update, expected * (1 - step / 10), rtol=1e-5, atol=1e-9)


def test_gradients_are_clipped_to_a_global_norm_and_small_ones_are_left() -> None:
    def update(clip_norm: float, scale: float = 1.0):
        train = TrainConfig(optimizer="sgd", learning_rate=1.0, clip_norm=clip_norm)
        return updates(train, gradient=jax.tree.map(lambda g: g * np.float32(scale), GRADIENT))[0]

    for clip_norm, factor in ((0.0, 1), (17.0, 0.2), (84.0, 84 / 85), (86.0, 1)):
        for mine, gradient in zip(
            *map(jax.tree.leaves, (update(clip_norm), GRADIENT)), strict=True
        ):
            np.testing.assert_allclose(mine, -gradient * factor, rtol=1e-5)
    assert optax.tree.norm(update(1.0)) == pytest.approx(1.0, rel=1e-5)
    assert optax.tree.norm(update(1.0, scale=1e-3)) == pytest.approx(0.085, rel=1e-5)


def test_the_first_updates_by_hand() -> None:
    sizes = {
        # m / (1 - β1) over the root of v / (1 - β2): the gradient's sign
        "adam": lambda g: -0.5 * np.sign(g),
        # root of ε over the root of (1 - ρ) g² + ε, ρ = 0.95, ε = 1e-6
        "adadelta": lambda g: -0.5 * g * np.sqrt(1e-6) / np.sqrt(0.05 * g**2 + 1e-6),
        "sgd": lambda g: -0.5 * g,
    }
    for optimizer, expected in sizes.items():
        train = TrainConfig(optimizer=optimizer, learning_rate=0.5, clip_norm=0.0)
        for update, gradient in zip(
            *map(jax.tree.leaves, (updates(train)[0], GRADIENT)), strict=True
        ):
            np.testing.assert_allclose(update, expected(gradient), rtol=1e-5, atol=1e-9)


def test_an_update_has_the_tree_of_the_parameters() -> None:
    for optimizer in ("adam", "adadelta", "sgd"):
        update = updates(TrainConfig(optimizer=optimizer))[0]
        assert jax.tree.structure(update) == jax.tree.structure(PARAMS)
        assert jax.tree.map(np.shape, update) == jax.tree.map(np.shape, PARAMS)


def test_decay_of_weights_is_clipped_with_the_gradient_and_leaves_vectors_alone() -> None:
    train = TrainConfig(optimizer="sgd", learning_rate=1.0, weight_decay=0.5, clip_norm=0.0)
    update = updates(train)[0]
    np.testing.assert_allclose(update["a"], -(GRADIENT["a"] + 0.5 * PARAMS["a"]), rtol=1e-6)
    for name in ("c", "d"):
        np.testing.assert_allclose(update["b"][name], -GRADIENT["b"][name], rtol=1e-6)
    train.clip_norm = 1.0
    assert optax.tree.norm(updates(train)[0]) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("optimizer", ["adam", "adadelta"])
def test_epsilon_zero_is_the_optimizers_own(optimizer: str) -> None:
    size = np.float32({"adam": 1e-6, "adadelta": 1.0}[optimizer])
    gradient = jax.tree.map(lambda g: g * size, GRADIENT)
    common = {"optimizer": optimizer, "clip_norm": 0.0}
    own, same, larger = (
        jax.tree.leaves(updates(TrainConfig(**common, epsilon=epsilon), gradient=gradient)[0])
        for epsilon in (0.0, {"adam": 1e-8, "adadelta": 1e-6}[optimizer], 1e-3)
    )
    np.testing.assert_array_equal(own[0], same[0])
    assert np.abs(larger[0] - own[0]).max() > 0.1 * np.abs(own[0]).max()


def test_a_plateaus_factor_scales_every_update_after_it() -> None:
    train = TrainConfig(schedule="plateau", optimizer="adam", learning_rate=0.1)
    optimizer = make_optimizer(train, 10)
    state = optimizer.init(PARAMS)
    full, _ = optimizer.update(GRADIENT, state, PARAMS)
    less, _ = optimizer.update(GRADIENT, with_plateau_rate(state, jnp.float32(0.25)), PARAMS)
    for x, y in zip(jax.tree.leaves(full), jax.tree.leaves(less), strict=True):
        np.testing.assert_allclose(y, x / 4, rtol=1e-6)
