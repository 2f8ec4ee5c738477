"""Several runs as one model: their parameters are stacked, and one program runs them all.

At every step an ensemble takes the mean of its members' probabilities (Sutskever et al. 2014,
section 3.6).
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from bahdanau_jax import fields
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.evaluator import Evaluator
from bahdanau_jax.evaluation.trained_run import TrainedRun, make_model, open_run
from bahdanau_jax.runtime import devices
from bahdanau_jax.workdir.selection import Selection


def open_ensemble(
    members: list[tuple[Path, Selection]], decode: Mapping[str, Any] | None = None
) -> TrainedRun:
    """Reads several runs, or several checkpoints of a run, as one model that translates.

    Args:
      members: workdir and checkpoint of each, as `open_run` takes them; at least one.
      decode: fields of `config.decode`, by name, that replace those of the first run.

    Returns:
      The run; its parameters are stacked where there are several members.

    Raises:
      InputError: as `open_run`; or the members aren't of one configuration and vocabulary.
    """
    first, *others = (open_run(directory, which, decode) for directory, which in members)
    if not others:
        return first
    for (directory, _), other in zip(members[1:], others, strict=True):
        _check_alike(members[0][0], first, directory, other)
    params = [run.params for run in (first, *others)]
    stacked = devices.replicate(jax.tree.map(lambda *leaves: jnp.stack(leaves), *params))
    model = make_model(first.config, first.vocabularies)
    evaluator = Evaluator(model, first.config, first.vocabularies, members=len(params))
    return dataclasses.replace(first, params=stacked, evaluator=evaluator)


def _check_alike(path: Path, run: TrainedRun, other_path: Path, other: TrainedRun) -> None:
    if run.vocabularies.fingerprint != other.vocabularies.fingerprint:
        raise InputError(
            f"--ensemble: {other_path} has other vocabularies than {path}; members must have "
            "been trained with the same ones"
        )
    ours, theirs = (fields.to_dict(each.config) for each in (run, other))
    if ours["model"] != theirs["model"] or ours["data"]["lowercase"] != theirs["data"]["lowercase"]:
        raise InputError(
            f"--ensemble: {other_path} has another model than {path}; members must differ only in "
            "what they were trained with"
        )
