"""A configuration by its fields' paths: get, set, JSON, differences, and values as flags give them.

    model.attention.score=additive,dot      a list of values
    train.learning_rate=1e-4..1e-2:log5     five values, evenly spaced by their logarithm
    train.dropout.readout=0..0.4:5          five values, evenly spaced
    seed=0..7                               whole numbers

`--config.FIELD`, `--sweep`, `--tune`, `--replicas` and `--match` all read fields and values here;
their complaints each name their own flag.
"""

import contextlib
import copy
import dataclasses
import difflib
import json
import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, get_type_hints

from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError
from bahdanau_jax.stored_files import parse_json

MOST_VALUES = 10_000
TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")

T = TypeVar("T")
Value = str | int | float | bool


class Former(NamedTuple):
    """How a value that an older run's config.json holds is read today."""

    path: str  # the field that says it today; empty: none does
    values: tuple[tuple[Value, Value], ...]  # what was written, and what means the same today
    otherwise: str  # what is said of any other value


# By the field's path in those files.
FORMER = {
    "model.attention.kernel": Former(
        "",
        (("auto", ""), ("xla", "")),
        "no run uses the Pallas kernel any more; set it to auto, which gives the same result",
    ),
    "model.input_feeding": Former(
        "model.feeding", ((False, "none"), (True, "attentional")), "it must be true or false"
    ),
    "model.layer_norm": Former(
        "model.layer_norm",
        ((False, "none"),),
        "its statistics ran over gates and proposal together, which no value computes any more; "
        "train anew with encoder, decoder or both",
    ),
    "model.tie_embeddings": Former(
        "model.tie_embeddings", ((False, "none"), (True, "output")), "it must be true or false"
    ),
}


def field_paths(kind: type = Config, prefix: str = "") -> list[str]:
    """Returns the path of every leaf field, as `model.attention.score`, in order of definition."""
    paths = []
    for name, annotation in get_type_hints(kind).items():
        if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
            paths += field_paths(annotation, f"{prefix}{name}.")
        else:
            paths.append(prefix + name)
    return paths


def with_values(base: Config, values: Mapping[str, Value]) -> Config:
    """Returns a copy of a configuration with some fields set, by path."""
    config = copy.deepcopy(base)
    for path, value in values.items():
        *sections, field = path.split(".")
        section: Any = config
        for name in sections:
            section = getattr(section, name)
        setattr(section, field, value)
    return config


def value_of(config: Config, path: str) -> Value:
    """Returns the value of a field, by path."""
    value: Any = config
    for name in path.split("."):
        value = getattr(value, name)
    return value


def to_dict(config: Config) -> dict[str, Any]:
    """Returns the configuration as nested dictionaries of JSON values."""
    return dataclasses.asdict(config)


def to_json(config: Config) -> str:
    """Returns the configuration as indented JSON, fields in their order of definition."""
    return json.dumps(to_dict(config), indent=2, ensure_ascii=False) + "\n"


def from_json(text: str) -> Config:
    """Reads what `to_json` wrote.

    Args:
      text: a JSON object whose fields are those of `Config`; absent fields keep their defaults.

    Returns:
      The configuration, not yet validated.

    Raises:
      InputError: the text is no JSON object, a field is unknown, or a value has another type.
    """
    try:
        values = parse_json(text)
    except ValueError as error:
        raise InputError(f"the configuration is not valid JSON ({error})") from error
    for path in FORMER:
        _read_former(values, path)
    return _build(Config, values, "")


def _read_former(values: Any, path: str) -> None:
    """Replaces, in nested dictionaries, a value that an older run wrote by today's.

    Raises:
      InputError: nothing means the same today.
    """
    *sections, name = path.split(".")
    section, former = _section(values, sections), FORMER[path]
    if name not in section or (path == former.path and type(section[name]) is field_type(path)):
        return
    written = section[name]
    for before, now in former.values:
        if type(written) is type(before) and written == before:
            del section[name]
            if former.path:
                *sections, name = former.path.split(".")
                _section(values, sections)[name] = now
            return
    raise InputError(f"configuration: {path} is {written!r}, but {former.otherwise}")


def _section(values: Any, names: list[str]) -> dict[str, Any]:
    """Returns a part of nested dictionaries; an empty one where it is absent."""
    for name in names:
        values = values.get(name) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def _build(kind: type[T], values: Any, path: str) -> T:
    """Makes the dataclass `kind` from nested dictionaries; `path` names it in messages."""
    if not isinstance(values, dict):
        raise InputError(f"configuration: {path or 'the top level'} must be an object of fields")
    types = get_type_hints(kind)
    arguments = {}
    for name, value in values.items():
        full = f"{path}.{name}" if path else name
        if name not in types:
            raise InputError(unknown_field(full))
        if dataclasses.is_dataclass(types[name]):
            arguments[name] = _build(types[name], value, full)
        elif types[name] is float and type(value) is int:
            arguments[name] = float(value)
        elif type(value) is not types[name]:
            raise InputError(f"configuration: {full} must be {types[name].__name__}, not {value!r}")
        else:
            arguments[name] = value
    return kind(**arguments)


def differences(before: dict[str, Any], now: Config) -> dict[str, list[Any]]:
    """Returns the values, before and now, of the fields that differ, by their path.

    Args:
      before: a configuration as `to_dict` returns it; a field that it lacks doesn't count.
      now: the configuration to compare it with.
    """
    differing, before, after = {}, copy.deepcopy(before), to_dict(now)
    for path in FORMER:
        with contextlib.suppress(InputError):  # what nothing means today differs
            _read_former(before, path)
    for field in field_paths():
        old: Any = before
        new: Any = after
        for name in field.split("."):
            old, new = old.get(name) if isinstance(old, dict) else None, new[name]
        if old is not None and old != new:
            differing[field] = [old, new]
    return differing


def unknown_field(path: str) -> str:
    """Returns the message for a field that doesn't exist, with the nearest one that does."""
    paths = field_paths()
    near = difflib.get_close_matches(path, paths, n=1, cutoff=0.6)
    if not near:
        last = path.rsplit(".", 1)[-1]
        near = sorted(paths, key=lambda p: -_likeness(last, p.rsplit(".", 1)[-1]))
    return f"unknown configuration field {path}; did you mean {near[0]}?"


def _likeness(first: str, second: str) -> float:
    return difflib.SequenceMatcher(None, first, second).ratio()


def resolve(name: str, flag: str = "--sweep") -> str:
    """Returns the path of a field, of which the first parts may be left out, as `score`.

    Args:
      name: the field's path, or its end.
      flag: what a complaint calls it.

    Raises:
      InputError: there is no such field, or several.
    """
    paths = field_paths()
    if name in paths:
        return name
    meant = [path for path in paths if path.endswith(f".{name}")] if name else []
    if len(meant) > 1:
        raise InputError(f"{flag}: {name} may be {' or '.join(meant)}; give more of its path")
    if not meant:
        raise InputError(f"{flag}: {unknown_field(name)}")
    return meant[0]


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
    match = re.fullmatch(r"(.+?)\.\.(.+?)(?::(log)?(\d+))?", part)
    if match is None or kind not in (int, float):
        return [parse_value(part, path, given)]
    low, high = (parse_value(limit, path, given) for limit in match.groups()[:2])
    logarithmic, count = match[3] is not None, match[4]
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
