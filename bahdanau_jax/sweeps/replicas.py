"""Several runs in one compiled program: other seeds or other numbers, the same batches.

`vmap` over parameters, optimiser state and keys, inside the map over devices; the batch is shared.
A replica's numbers are those of its own run but for the order in which products are summed.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import Config, TrainConfig
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import field_paths, value_of
from bahdanau_jax.model.dropout import varying_rate
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import TrainState, create_state, make_train_step

# The fields that may differ between replicas; all else is the same program.
FIELDS = (
    "seed",
    "train.learning_rate",
    "train.clip_norm",
    "train.label_smoothing",
    "train.dropout.embedding",
    "train.dropout.annotations",
    "train.dropout.readout",
)


def check(configs: Sequence[Config]) -> None:
    """Checks that configurations can be replicas of one program.

    Raises:
      InputError: they differ in more than numbers; names the field.
    """
    for path in field_paths():
        values = [value_of(config, path) for config in configs]
        if path not in FIELDS and any(value != values[0] for value in values):
            raise InputError(
                f"--replicas: {path} can't differ within one program, only "
                f"{', '.join(FIELDS)} can; use --sweep for the others"
            )
    clipped = {config.train.clip_norm > 0 for config in configs}
    if len(clipped) > 1:
        raise InputError(
            "--replicas: train.clip_norm=0 leaves the clipping out of the program, so it can't "
            "stand beside others; give a large number instead"
        )


def make_replica_step(model: Seq2Seq, configs: Sequence[Config], steps: int) -> Callable:
    """Returns the per-device function `(states, batch) -> (states, TrainSums)`, stacked.

    Args:
      model: of all replicas.
      configs: of each replica; they differ in `FIELDS` alone.
      steps: length of the whole run, for the schedule.

    Returns:
      A function as from `step.make_train_step` whose states and sums have a leading axis of
      replicas; the batch has none.
    """
    train = configs[0].train
    varied = _varied(configs)

    def step(state: TrainState, values: Mapping[str, Any], batch):
        mine = _with(train, values)
        return make_train_step(model, make_optimizer(mine, steps), mine)(state, batch)

    def replica_step(states: TrainState, batch):
        return jax.vmap(step, in_axes=(0, 0, None))(states, varied, batch)

    return replica_step


def create_states(model: Seq2Seq, configs: Sequence[Config], steps: int) -> TrainState:
    """Returns the states before the first update, stacked; each is that of its own run.

    Args:
      model: of all replicas.
      configs: of each replica.
      steps: length of the whole run.
    """
    optimizer = make_optimizer(configs[0].train, steps)
    return stack([create_state(model, optimizer, config.seed) for config in configs])


def stack(states: Sequence[Any]) -> Any:
    """Joins trees of arrays along a new leading axis of replicas."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)


def replica(states: Any, number: int) -> Any:
    """Returns one replica's part of stacked trees."""
    return jax.tree.map(lambda leaf: leaf[number], states)


def _varied(configs: Sequence[Config]) -> dict[str, Any]:
    """Returns the fields of `train` that differ, each with a leading axis of replicas."""
    varied: dict[str, Any] = {}
    for field in FIELDS:
        values: list[Any] = [value_of(config, field) for config in configs]
        if not field.startswith("train.") or len(set(values)) == 1:
            continue
        path = field.removeprefix("train.")
        if path.startswith("dropout."):
            varied[path] = stack([varying_rate(value) for value in values])
        else:
            varied[path] = jnp.asarray(values, jnp.float32)
    return varied


def _with(train: TrainConfig, values: Mapping[str, Array]) -> TrainConfig:
    """Returns the configuration with a replica's values, which are traced, in it."""
    dropout = {p.removeprefix("dropout."): v for p, v in values.items() if p.startswith("dropout.")}
    others: dict[str, Any] = {p: v for p, v in values.items() if not p.startswith("dropout.")}
    others["dropout"] = dataclasses.replace(train.dropout, **dropout)
    return dataclasses.replace(train, **others)
