"""What a tuner may choose for each field, as `--tune` says it.

train.learning_rate=1e-4..1e-2:log    a number, evenly likely by its logarithm
train.dropout.readout=0..0.5          a number; a whole one where the field has whole ones
model.attention.score=additive,dot    one of a list
"""

import re
from typing import Any, NamedTuple

from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import (
    Value,
    check_finite,
    field_type,
    parse_field,
    parse_value,
    resolve,
)


class Range(NamedTuple):
    """Numbers from low to high, both included."""

    low: float
    high: float
    logarithmic: bool
    whole: bool


class Choice(NamedTuple):
    """One of some values."""

    values: list[Value]


Space = dict[str, Range | Choice]  # by the field's path


def parse_space(texts: list[str]) -> Space:
    """Reads every `--tune`.

    Raises:
      InputError: a field doesn't exist or occurs twice, or what it may be can't be read.
    """
    space: Space = {}
    for text in texts:
        path, what = _parse_field(text)
        if path in space:
            raise InputError(f"--tune: {path} is tuned twice; give all that it may be at once")
        space[path] = what
    return space


def suggest(trial: Any, space: Space) -> dict[str, Value]:
    """Asks a trial for a value of every field.

    Args:
      trial: Optuna's.
      space: what there is to choose from.

    Returns:
      Values by field; numbers to four digits, so that a workdir's name can say them.
    """
    values: dict[str, Value] = {}
    for path, what in space.items():
        if isinstance(what, Choice):
            values[path] = trial.suggest_categorical(path, what.values)
        elif what.whole:
            low, high = int(what.low), int(what.high)
            values[path] = trial.suggest_int(path, low, high, log=what.logarithmic)
        else:
            value = trial.suggest_float(path, what.low, what.high, log=what.logarithmic)
            values[path] = float(f"{value:.4g}")
    return values


def _parse_field(text: str) -> tuple[str, Range | Choice]:
    name, _, listed = text.partition("=")
    limits = re.fullmatch(r"([^,]+?)\.\.([^,]+?)(:log)?", listed)
    path = resolve(name.removeprefix("config."), "--tune")
    kind = field_type(path)
    if limits is None or kind not in (int, float):
        return path, Choice(parse_field(text, "--tune")[1])
    low, high = (parse_value(number, path, f"--tune={text}") for number in limits.groups()[:2])
    assert isinstance(low, int | float) and isinstance(high, int | float)
    check_finite(low, high, f"--tune={text}")
    if not low < high:
        raise InputError(f"--tune={text}: {limits[1]} must be below {limits[2]}")
    if limits[3] and low <= 0:
        raise InputError(f"--tune={text}: a logarithmic range begins above 0")
    return path, Range(low, high, limits[3] is not None, kind is int)
