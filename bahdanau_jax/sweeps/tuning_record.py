"""What a tuner looks for, kept in its workdir so that every later start looks for the same.

    W/tuning.json       base configuration, metric, direction, and what there is to choose from

Values of one metric, or of one base configuration, say nothing about another; a journal that holds
both would be a study of nothing.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bahdanau_jax import fields
from bahdanau_jax.durable import write_atomically
from bahdanau_jax.errors import InputError
from bahdanau_jax.stored_files import read_json
from bahdanau_jax.workdir.metrics_log import to_json

RECORD = "tuning.json"


def check(directory: Path, now: Mapping[str, Any]) -> bool:
    """Compares a tuner with what its workdir says it was begun with.

    Args:
      directory: the tuner's workdir.
      now: `base`, a configuration as `fields.to_dict` returns it; `metric`; `direction`; and
        `space`, what may be chosen for each field.

    Returns:
      Whether there is a record.

    Raises:
      InputError: something differs, and is named; or the record can't be read.
    """
    path = directory / RECORD
    if not path.exists():
        return False
    try:
        then = read_json(path)
        base = fields.from_json(json.dumps(then["base"]))
        differing = _differences(then, now)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: can't be read ({type(error).__name__}); bring it back, or choose another "
            "--workdir"
        ) from error
    changed = fields.differences(now["base"], base)
    differing += [f"{name} is {new!r} and was {old!r}" for name, (new, old) in changed.items()]
    if differing:
        raise InputError(
            f"{directory} holds trials of another search: {'; '.join(differing)}; give the same "
            "values again, or choose another --workdir"
        )
    return True


def write(directory: Path, now: Mapping[str, Any]) -> None:
    """Keeps what a tuner looks for; as `check` takes it."""
    write_atomically(directory / RECORD, to_json(now))


def _differences(then: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    differing = [
        f"the {name} is {now[name]} and was {then[name]}"
        for name in ("metric", "direction")
        if now[name] != then[name]
    ]
    for field in dict.fromkeys([*then["space"], *now["space"]]):
        old, new = (_words(each["space"].get(field)) for each in (then, now))
        if old != new:
            differing.append(f"{field} is {new} and was {old}")
    return differing


def _words(choice: Mapping[str, Any] | None) -> str:
    """Returns what may be chosen for a field, as `--tune` has it."""
    if choice is None:
        return "not tuned"
    if "values" in choice:
        return ",".join(map(fields.text_of, choice["values"]))
    return f"{choice['low']:g}..{choice['high']:g}" + ":log" * bool(choice["logarithmic"])
