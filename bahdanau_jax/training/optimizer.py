"""Optimisers and learning-rate schedules, from optax."""

import jax
import jax.numpy as jnp
import optax

from bahdanau_jax.config import TrainConfig


def make_schedule(train: TrainConfig, steps: int) -> optax.Schedule:
    """Returns the learning rate by step.

    Args:
      train: `schedule`, `learning_rate` and `warmup_steps` are read.
      steps: length of the whole run; linear and cosine reach zero there.

    Returns:
      A function from the step, `int32[]`, to the rate: a linear warm-up from zero, then constant,
      linear or half-cosine decay to zero, or decay by the inverse square root of the step.
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
        case _:
            after = optax.constant_schedule(peak)
    if warmup == 0:
        return after
    return optax.join_schedules([optax.linear_schedule(0.0, peak, warmup), after], [warmup])


def make_optimizer(train: TrainConfig, steps: int) -> optax.GradientTransformation:
    """Returns clipping by the global norm, then the optimiser.

    Args:
      train: `optimizer`, `clip_norm` and the schedule's fields are read.
      steps: length of the whole run, for the schedule.

    Returns:
      Adam (Kingma and Ba 2015); Adadelta with the paper's ρ = 0.95 and ε = 1e-6 (Zeiler 2012;
      Bahdanau et al. 2014, appendix B.2); or plain SGD.
    """
    schedule = make_schedule(train, steps)
    match train.optimizer:
        case "adam":
            update = optax.adam(schedule)
        case "adadelta":
            update = optax.adadelta(schedule, rho=0.95, eps=1e-6)
        case _:
            update = optax.sgd(schedule)
    # A number that replicas differ in is traced, and always positive.
    if isinstance(train.clip_norm, jax.Array) or train.clip_norm > 0:
        update = optax.chain(optax.clip_by_global_norm(train.clip_norm), update)
    return update


def _inverse_sqrt(peak: float, warmup: int) -> optax.Schedule:
    """Returns peak · √(warmup / (warmup + step)), which is `peak` where the warm-up ends."""
    # `join_schedules` asks for the rate of the steps before its boundary too, and drops it.
    return lambda step: peak * (warmup / (warmup + jnp.maximum(step, 0))) ** 0.5
