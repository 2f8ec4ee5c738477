"""Values of a field as a flag gives them: which field is meant, and one value, several, or a range.

    model.attention.score=additive,dot      a list of values
    train.learning_rate=1e-4..1e-2:log5     five values, evenly spaced by their logarithm
    train.dropout.readout=0..0.4:5          five values, evenly spaced
    seed=0..7                               whole numbers

Used by `--sweep`, `--tune`, `--replicas` and `--match`, whose complaints each name their own flag.
"""

import math
import re
from typing import Any, get_type_hints

from bahdanau_jax import config as config_lib
from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError

MOST_VALUES = 10_000
TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")

Value = str | int | float | bool


def resolve(name: str, flag: str = "--sweep") -> str:
    """Returns the path of a field, of which the first parts may be left out, as `score`.

    Args:
      name: the field's path, or its end.
      flag: what a complaint calls it.

    Raises:
      InputError: there is no such field, or several.
    """
    paths = config_lib.field_paths()
    if name in paths:
        return name
    found = [path for path in paths if path.endswith(f".{name}")] if name else []
    if len(found) > 1:
        raise InputError(f"{flag}: {name} may be {' or '.join(found)}; give more of its path")
    if not found:
        raise InputError(f"{flag}: {config_lib.unknown_field(name)}")
    return found[0]


def short_name(path: str) -> str:
    """Returns the shortest end of a field's path that `resolve` understands."""
    parts = path.split(".")
    for begin in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[begin:])
        try:
            if resolve(name) == path:
                return name
        except InputError:
            continue
    return path


def parse_field(text: str, flag: str = "--sweep") -> tuple[str, list[Value]]:
    """Reads `FIELD=v1,v2,…`.

    Args:
      text: as on the command line.
      flag: what a complaint calls it.

    Returns:
      The field's path and its values, at least one, all different.

    Raises:
      InputError: the field doesn't exist, or a value isn't one of its type.
    """
    name, equals, listed = text.partition("=")
    if not equals:
        raise InputError(f"{flag}={text} must be FIELD=v1,v2,…" + " or @NAME" * (flag == "--sweep"))
    path = resolve(name.removeprefix("config."), flag)
    given = f"{flag}={text}"
    values = [value for part in listed.split(",") for value in _values(part, path, given)]
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise InputError(f"{given}: the value {text_of(twice)} occurs twice")
    return path, values


def field_type(path: str) -> type:
    """Returns the type of a field: str, int, float or bool."""
    kind: Any = Config
    for name in path.split("."):
        kind = get_type_hints(kind)[name]
    return kind


def parse_value(text: str, path: str, given: str = "--sweep") -> Value:
    """Reads one value of a field.

    Args:
      text: the value.
      path: of the field.
      given: what a complaint begins with: the flag, as on the command line.

    Raises:
      InputError: it isn't one of the field's type.
    """
    kind = field_type(path)
    try:
        if kind is bool:
            if text.lower() not in TRUE + FALSE:
                raise ValueError
            return text.lower() in TRUE
        return kind(text)
    except ValueError:
        raise InputError(f"{given}: {path} must be {kind.__name__}; it is {text!r}") from None


def check_finite(low: float, high: float, given: str) -> None:
    """Raises InputError, beginning with what was given, if a range has an end that isn't finite."""
    if not (math.isfinite(low) and math.isfinite(high)):
        raise InputError(f"{given}: a range has two ends; give numbers")


def text_of(value: Value) -> str:
    """Returns a value as a flag has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def _values(part: str, path: str, given: str) -> list[Value]:
    """Returns what a part between two commas stands for: a value, or the values of a range."""
    kind = field_type(path)
    found = re.fullmatch(r"(.+?)\.\.(.+?)(?::(log)?(\d+))?", part)
    if found is None or kind not in (int, float):
        return [parse_value(part, path, given)]
    low, high = (parse_value(limit, path, given) for limit in found.groups()[:2])
    logarithmic, count = found[3] is not None, found[4]
    assert isinstance(low, int | float) and isinstance(high, int | float)
    # Counted before they are made: a slip of the hand may ask for more than fit into memory.
    if (int(count) if count else high - low + 1 if kind is int else 0) > MOST_VALUES:
        raise InputError(f"{given}: the range {part} has more than {MOST_VALUES:,} values")
    if count is None and kind is int:
        values: list[Value] = list(range(int(low), int(high) + 1))
    elif count is None:
        raise InputError(f"{given}: say how many values, as {part}:5 or {part}:log5")
    else:
        values = _spaced(low, high, int(count), logarithmic, given)
        values = [round(float(x)) for x in values] if kind is int else values
    if not values or high < low:
        raise InputError(f"{given}: the range {part} holds no value")
    return list(dict.fromkeys(values))


def _spaced(low: float, high: float, count: int, logarithmic: bool, text: str) -> list[Value]:
    """Returns evenly spaced numbers, both ends among them, to four digits."""
    check_finite(low, high, text)
    if logarithmic and low <= 0:
        raise InputError(f"{text}: a logarithmic range begins above 0")
    shares = [n / max(count - 1, 1) for n in range(count)]
    if logarithmic:
        inner = [low * (high / low) ** share for share in shares]
    else:
        inner = [low + (high - low) * share for share in shares]
    return [float(f"{value:.4g}") for value in inner]
