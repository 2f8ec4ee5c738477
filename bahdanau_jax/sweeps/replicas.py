"""Several runs in one compiled program: other seeds or other numbers, the same batches.

`vmap` over parameters, optimiser state and keys, inside the map over devices; the batch is shared.
A replica's numbers are those of its own run but for the order in which products are summed. Each
has a workdir like any other; the loop is that of a run alone.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from bahdanau_jax.config import Config, TrainConfig
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import differences, field_paths
from bahdanau_jax.model.dropout import varying_rate
from bahdanau_jax.model.seq2seq import Seq2Seq
from bahdanau_jax.runtime import devices, processes
from bahdanau_jax.sweeps import sweep
from bahdanau_jax.sweeps.executors import LOG
from bahdanau_jax.sweeps.grid import Cell, value_of
from bahdanau_jax.terminal import say
from bahdanau_jax.training.loop import Program
from bahdanau_jax.training.member import Member
from bahdanau_jax.training.optimizer import make_optimizer
from bahdanau_jax.training.step import TrainState, create_state, make_train_step
from bahdanau_jax.training.train import MAY_CHANGE, check_members, train_members
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import manifest, metrics_log
from bahdanau_jax.workdir.checkpoints import Checkpoints

T = TypeVar("T")

# The fields that may differ between replicas; all else is the same program.
FIELDS = (
    "seed",
    "train.learning_rate",
    "train.clip_norm",
    "train.label_smoothing",
    "train.dropout.source_words",
    "train.dropout.target_words",
    "train.dropout.embedding",
    "train.dropout.layers",
    "train.dropout.states",
    "train.dropout.annotations",
    "train.dropout.readout",
)


def train_replicas(
    directory: Path,
    cells: Sequence[Cell],
    overrides: Sequence[str],
    init_from: Path | None = None,
    experiment: Path | None = None,
) -> list[str]:
    """Trains every cell that isn't finished, or goes on, in one program; evaluates each one's best.

    Cells that stand at different steps are trained in as many programs, one after another.

    Args:
      directory: of the sweep; each cell's workdir is below it.
      cells: valid; they differ in `FIELDS` alone.
      overrides: the fields given by flags, for the manifests.
      init_from: the workdir of a run whose best parameters new replicas begin with.
      experiment: the Python file that made the configuration, for the manifests.

    Returns:
      The names of the cells that failed.

    Raises:
      InputError: the cells can't share a program, or the data or a workdir can't be used.
      RunError: saves fail.
      Stopped: a signal asked for it; what there was is saved.
    """
    if processes.count() > 1:
        raise InputError("--replicas runs in one process; leave out --distributed")
    check([cell.config for cell in cells])
    members = [_member(directory / cell.name, cell, overrides, experiment) for cell in cells]
    for member in members:
        workdir.check_config(member.directory, member.config, MAY_CHANGE)
    with workdir.lock(directory):
        left = [member for member in members if not is_concluded(member.directory, member.config)]
        groups = group_by_step(left, [_steps(member.directory) for member in left])
        new = len(groups.get(0, []))
        say(
            f"{len(cells)} replicas: {len(members) - len(left)} finished, {len(left) - new} to go "
            f"on, {new} to begin"
        )
        if len(groups) > 1:
            steps = ", ".join(f"{len(group)} from step {step:,}" for step, group in groups.items())
            say(f"they don't stand at one step; one group is trained after another: {steps}")
        if not groups:
            sweep.list_cells(directory, cells, [])
        # What is wrong with a later group is said before an earlier one is changed.
        for group in groups.values() if len(groups) > 1 else ():
            check_members(group, replica_program, init_from)
        for number, group in enumerate(groups.values()):
            claimed = functools.partial(_begin, directory, group, cells if number == 0 else [])
            train_members(group, replica_program, init_from, claimed)
    return [cell.name for cell, member in zip(cells, members, strict=True) if member.failure]


def is_concluded(directory: Path, config: Config) -> bool:
    """Returns whether a run of exactly this configuration has come to its end in a workdir."""
    result = metrics_log.read_result(directory)
    if result is None:
        return False
    starts = manifest.read_starts(directory)
    # A run that was given more steps, and hasn't come to their end, has the result of an earlier
    # start. A result without the number of its start is of a version that didn't count them.
    number = result.get("start")
    number = number if isinstance(number, int) else len(starts)
    return not any(differences(start["config"], config) for start in starts[:number][-1:])


def group_by_step(members: Sequence[T], steps: Sequence[Sequence[int]]) -> dict[int, list[T]]:
    """Divides members into those that can go on together.

    Args:
      members: that aren't finished.
      steps: of each one's checkpoints, the newest first; none for a new one.

    Returns:
      Members by the step that they go on from, 0 for new ones. Nobody goes back by more than one
      save, which is how far those that were trained together can be apart when they are killed.
    """
    groups: dict[int, list[T]] = {}
    newest = [each[0] if each else 0 for each in steps]
    for number in sorted(range(len(members)), key=newest.__getitem__):
        # The group of the least advanced comes first, so that a later member can join it.
        shared = [step for step in groups if step in steps[number][:2]] or [newest[number]]
        groups.setdefault(shared[-1], []).append(members[number])
    return groups


def _steps(directory: Path) -> list[int]:
    """Returns the steps of a workdir's checkpoints, the newest first, unless somebody trains it."""
    with workdir.lock(directory), Checkpoints(directory / "checkpoints") as checkpoints:
        return checkpoints.steps()


def _begin(directory: Path, members: Sequence[Member], cells: Sequence[Cell]) -> None:
    """Notes that members are trained, and which cells the sweep has, unless that was noted."""
    for member in members:
        (member.directory / sweep.FAILED).unlink(missing_ok=True)
    if cells:
        sweep.list_cells(directory, cells, [])


def _member(
    directory: Path, cell: Cell, overrides: Sequence[str], experiment: Path | None
) -> Member:
    """Returns a cell as the loop trains it: what it prints goes into a log, as a sweep's cell's."""

    def failed(why: str) -> None:
        sweep.write_failure(directory, 1, why)
        say(f"{cell.name} FAILED: {why}")

    values = [f"{path}={value}" for path, value in cell.values.items()]
    overrides = [*overrides, *values]
    return Member(cell.config, directory, overrides, experiment, directory / LOG, failed)


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


def replica_program(model: Seq2Seq, configs: Sequence[Config], steps: int) -> Program:
    """Returns the program of all replicas, whose states have a leading axis of replicas.

    Args:
      model: of all replicas.
      configs: of each replica; they differ in `FIELDS` alone.
      steps: length of the whole run, for the schedule.
    """
    return Program(
        create=lambda: create_states(model, configs, steps),
        step=make_replica_step(model, configs, steps),
        join=lambda parts: devices.replicate(stack(parts)),
        part=replica,
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
    return stack([create_state(model, optimizer, one.seed, one.train.average) for one in configs])


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
