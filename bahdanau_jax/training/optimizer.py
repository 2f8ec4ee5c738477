"""Optimisers and learning-rate schedules, from optax."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import Array

from bahdanau_jax.config import TrainConfig


class PlateauState(NamedTuple):
    """What `train.schedule=plateau` has made of the rate."""

    plateau_rate: Array  # factor of every update, 1 before the first plateau, float32[]


def make_schedule(train: TrainConfig, steps: int) -> optax.Schedule:
    """Returns the learning rate by step.

    Args:
      train: the fields of the schedule, `learning_rate` and `warmup_steps` are read.
      steps: length of the whole run; linear and cosine reach zero there.

    Returns:
      A function from the step, `int32[]`, to the rate: a linear warm-up from zero, then constant,
      linear or half-cosine decay to zero, decay by the inverse square root of the step, or a
      factor for every so many epochs (Luong et al. 2015, section 4.1). For `plateau` the rate
      before evaluations lower it.
    """
    peak, warmup = train.learning_rate, train.warmup_steps
    rest = max(steps - warmup, 1)
    match train.schedule:
        case "linear":
            after = optax.linear_schedule(peak, 0.0, rest)
        case "cosine":
            after = optax.cosine_decay_schedule(peak, rest)
        case "inverse_sqrt":
            after = _inverse_sqrt(peak, max(warmup, 1))
        case "halving":
            after = _halving(train, steps)
        case _:
            after = optax.constant_schedule(peak)
    if warmup == 0:
        return after
    return optax.join_schedules([optax.linear_schedule(0.0, peak, warmup), after], [warmup])


def make_optimizer(train: TrainConfig, steps: int) -> optax.GradientTransformation:
    """Returns the decay of weights, clipping by the global norm, then the optimiser.

    Args:
      train: `optimizer` and its fields, `weight_decay`, `clip_norm` and the schedule's are read.
      steps: length of the whole run, for the schedule.

    Returns:
      Adam (Kingma and Ba 2015); Adadelta with the paper's ρ = 0.95 and ε = 1e-6 (Zeiler 2012;
      Bahdanau et al. 2014, appendix B.2); or plain SGD.
    """
    schedule = make_schedule(train, steps)
    match train.optimizer:
        case "adam":
            epsilon = train.epsilon or 1e-8
            update = optax.adam(schedule, b1=train.beta1, b2=train.beta2, eps=epsilon)
        case "adadelta":
            update = optax.adadelta(schedule, rho=0.95, eps=train.epsilon or 1e-6)
        case _:
            update = optax.sgd(schedule)
    # A number that replicas differ in is traced, and always positive.
    if isinstance(train.clip_norm, jax.Array) or train.clip_norm > 0:
        update = optax.chain(optax.clip_by_global_norm(train.clip_norm), update)
    if train.weight_decay > 0:
        # Part of what is minimised, so the clip sees it; vectors and gains are left as they are.
        update = optax.chain(optax.add_decayed_weights(train.weight_decay, _matrices), update)
    if train.schedule == "plateau":
        update = optax.chain(update, _scale_by_plateau())
    return update


def with_plateau_rate(opt_state: Any, factor: Array) -> Any:
    """Returns the optimiser's state with another factor of every update.

    Args:
      opt_state: of `train.schedule=plateau`.
      factor: `float32[]`, or with a leading axis where the state has one.
    """
    return optax.tree.set(opt_state, plateau_rate=factor)


def _matrices(params: Any) -> Any:
    return jax.tree.map(lambda x: x.ndim > 1, params)


def _scale_by_plateau() -> optax.GradientTransformation:
    def init(params: Any) -> PlateauState:
        del params
        return PlateauState(jnp.ones(()))

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, PlateauState]:
        del params
        return jax.tree.map(lambda u: state.plateau_rate * u, updates), state

    return optax.GradientTransformation(init, update)


def _halving(train: TrainConfig, steps: int) -> optax.Schedule:
    """Returns the schedule that multiplies the rate by a factor, first after `decay_start`."""
    # A run's length is counted in epochs or in steps; so are these.
    unit = steps / train.epochs if train.epochs else 1.0
    start, every = train.decay_start * unit - train.warmup_steps, train.decay_every * unit

    def rate(step: Any) -> Array:
        passed = jnp.floor((step - start) / every) + 1
        return train.learning_rate * train.decay_factor ** jnp.maximum(passed, 0)

    return rate


def _inverse_sqrt(peak: float, warmup: int) -> optax.Schedule:
    """Returns peak · √(warmup / (warmup + step)), which is `peak` where the warm-up ends."""
    # `join_schedules` asks for the rate of the steps before its boundary too, and drops it.
    return lambda step: peak * (warmup / (warmup + jnp.maximum(step, 0))) ** 0.5
