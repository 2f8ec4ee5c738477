"""The cells of a sweep: which values of which fields, parsed by type, checked, and named.

    model.attention.score=additive,dot      a list of values
    train.learning_rate=1e-4..1e-2:log5     five values, evenly spaced by their logarithm
    train.dropout.readout=0..0.4:5          five values, evenly spaced
    seed=0..7                               whole numbers
    @scores                                 a sweep that the experiment file has in its `SWEEPS`

Nothing here starts anything; a grid is known to be right before its first cell runs.
"""

import copy
import dataclasses
import hashlib
import itertools
import math
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any, get_type_hints

from bahdanau_jax import config as config_lib
from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError
from bahdanau_jax.validation import validate

SWEEPS = "SWEEPS"  # the name under which an experiment file offers named sweeps
LONGEST_NAME = 120  # characters of a cell's name; file systems take 255 bytes
MOST_CELLS = 10_000
TRUE, FALSE = ("true", "yes", "1"), ("false", "no", "0")

Value = str | int | float | bool
Point = dict[str, Value]  # values by the field's path


@dataclasses.dataclass(frozen=True)
class Axis:
    """One `--sweep`: points, each of which sets one or several fields.

    Attributes:
      points: at least one, different from each other; all set the same fields.
      named: the fields that tell the points apart, in order.
    """

    points: tuple[Point, ...]
    named: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Cell:
    """One run of a sweep.

    Attributes:
      name: of its workdir, as `score=dot,seed=1`.
      values: the fields that the sweep sets, by path.
      config: the whole configuration.
      matched: fields beside them that were sized so that the cell can be compared.
    """

    name: str
    values: Point
    config: Config
    matched: Point = dataclasses.field(default_factory=dict)

    def arguments(self) -> list[str]:
        """Returns the flags that make this cell's configuration of the sweep's."""
        fields = self.values | self.matched
        return [f"--config.{path}={_text(value)}" for path, value in fields.items()]


def expand(
    base: Config,
    sweeps: Sequence[str],
    named: Mapping[str, Any] | None = None,
    *,
    paired: bool = False,
) -> list[Cell]:
    """Makes the cells of a sweep; every one of them is valid.

    Args:
      base: what the cells share.
      sweeps: as on the command line, at least one; see the head of this file.
      named: the experiment file's `SWEEPS`: for each name a dictionary of fields and lists of
        values, of which the product is taken, or a list of dictionaries of fields and values.
      paired: whether the first values of all sweeps make a cell, the second ones another, …;
        otherwise every value meets every other.

    Returns:
      The cells; the last sweep varies fastest.

    Raises:
      InputError: a sweep can't be read, or a cell can't work, which it names.
    """
    axes = [axis for sweep in sweeps for axis in _axes(sweep, base, named or {})]
    _check_axes(axes, paired)
    count = len(axes[0].points) if paired else math.prod(len(axis.points) for axis in axes)
    if count > MOST_CELLS:
        raise InputError(f"--sweep: {count:,} cells are more than {MOST_CELLS:,}; leave some out")
    points = [axis.points for axis in axes]
    combined = zip(*points, strict=True) if paired else itertools.product(*points)
    order = [path for axis in axes for path in axis.named]
    return [cell(base, _union(parts), order) for parts in combined]


def cell(base: Config, values: Point, named: Sequence[str]) -> Cell:
    """Returns the cell with these values, which is valid.

    Args:
      base: what isn't set.
      values: by the field's path.
      named: the fields that its name consists of.

    Raises:
      InputError: it can't work; says which cell, and why.
    """
    name = ",".join(f"{short_name(path)}={_safe(_text(values[path]))}" for path in named)
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name[: LONGEST_NAME - 9]}~{digest}"
    config = with_values(base, values)
    try:
        validate(config)
    except InputError as error:
        raise InputError(f"the cell {name} can't be run: {error}") from error
    return Cell(name, values, config)


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


def resolve(name: str) -> str:
    """Returns the path of a field, of which the first parts may be left out, as `score`.

    Raises:
      InputError: there is no such field, or several.
    """
    paths = config_lib.field_paths()
    if name in paths:
        return name
    found = [path for path in paths if path.endswith(f".{name}")] if name else []
    if len(found) > 1:
        raise InputError(f"--sweep: {name} may be {' or '.join(found)}; give more of its path")
    if not found:
        raise InputError(f"--sweep: {config_lib.unknown_field(name)}")
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


def parse_field(text: str) -> tuple[str, list[Value]]:
    """Reads `FIELD=v1,v2,…`.

    Returns:
      The field's path and its values, at least one, all different.

    Raises:
      InputError: the field doesn't exist, or a value isn't one of its type.
    """
    name, equals, listed = text.partition("=")
    if not equals:
        raise InputError(f"--sweep={text} must be FIELD=v1,v2,… or @NAME")
    path = resolve(name.removeprefix("config."))
    values = [value for part in listed.split(",") for value in _values(part, path, text)]
    if len(set(values)) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise InputError(f"--sweep={text}: the value {_text(twice)} occurs twice")
    return path, values


def field_type(path: str) -> type:
    """Returns the type of a field: str, int, float or bool."""
    kind: Any = Config
    for name in path.split("."):
        kind = get_type_hints(kind)[name]
    return kind


def parse_value(text: str, path: str) -> Value:
    """Reads one value of a field.

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
        raise InputError(f"--sweep: {path} must be {kind.__name__}; it is {text!r}") from None


def _axes(sweep: str, base: Config, named: Mapping[str, Any]) -> list[Axis]:
    """Returns the axes of one `--sweep`; a named one may be a product of several."""
    if not sweep.startswith("@"):
        path, values = parse_field(sweep)
        return [Axis(tuple({path: value} for value in values), (path,))]
    name = sweep[1:]
    if name not in named:
        offered = ", ".join(f"@{known}" for known in named) or "none"
        raise InputError(
            f"--sweep={sweep}: the experiment file's {SWEEPS} has no such sweep; it has {offered}"
        )
    offer = named[name]
    if isinstance(offer, Mapping):
        return [
            Axis(tuple({path: value} for value in values), (path,))
            for path, values in ((resolve(str(field)), values) for field, values in offer.items())
        ]
    points = [{resolve(str(path)): value for path, value in point.items()} for point in offer]
    paths = list(dict.fromkeys(path for point in points for path in point))
    filled = [{path: point.get(path, value_of(base, path)) for path in paths} for point in points]
    different = [p for p in paths if any(x[p] != filled[0][p] for x in filled)]
    return [Axis(tuple(filled), tuple(different or paths))]


def _check_axes(axes: list[Axis], paired: bool) -> None:
    if not axes or not all(axis.points and axis.named for axis in axes):
        raise InputError("--sweep: there are no values; give FIELD=v1,v2,… or a named sweep")
    fields = [path for axis in axes for path in axis.points[0]]
    for path in fields:
        if fields.count(path) > 1:
            raise InputError(f"--sweep: {path} is swept twice; give all its values at once")
    for axis in axes:
        if len({tuple(point.values()) for point in axis.points}) < len(axis.points):
            raise InputError(f"--sweep: {', '.join(axis.named)} has the same values twice")
    lengths = {len(axis.points) for axis in axes}
    if paired and len(lengths) > 1:
        counts = ", ".join(f"{short_name(a.named[0])} {len(a.points)}" for a in axes)
        raise InputError(f"--zip pairs sweeps of as many values each; there are: {counts}")


def _values(part: str, path: str, text: str) -> list[Value]:
    """Returns what a part between two commas stands for: a value, or the values of a range."""
    kind = field_type(path)
    found = re.fullmatch(r"(.+?)\.\.(.+?)(?::(log)?(\d+))?", part)
    if found is None or kind not in (int, float):
        return [parse_value(part, path)]
    low, high = (parse_value(limit, path) for limit in found.groups()[:2])
    logarithmic, count = found[3] is not None, found[4]
    assert isinstance(low, int | float) and isinstance(high, int | float)
    if count is None and kind is int:
        values: list[Value] = list(range(int(low), int(high) + 1))
    elif count is None:
        raise InputError(f"--sweep={text}: say how many values, as {part}:5 or {part}:log5")
    else:
        values = _spaced(low, high, int(count), logarithmic, f"--sweep={text}")
        values = [round(float(x)) for x in values] if kind is int else values
    if not values or high < low:
        raise InputError(f"--sweep={text}: the range {part} holds no value")
    return list(dict.fromkeys(values))


def _spaced(low: float, high: float, count: int, logarithmic: bool, text: str) -> list[Value]:
    """Returns evenly spaced numbers, both ends among them, to four digits."""
    if logarithmic and low <= 0:
        raise InputError(f"{text}: a logarithmic range begins above 0")
    shares = [n / max(count - 1, 1) for n in range(count)]
    if logarithmic:
        inner = [low * (high / low) ** share for share in shares]
    else:
        inner = [low + (high - low) * share for share in shares]
    return [float(f"{value:.4g}") for value in inner]


def _union(points: Sequence[Point]) -> Point:
    return {path: value for point in points for path, value in point.items()}


def _text(value: Value) -> str:
    """Returns a value as a flag has it."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, float) else str(value)


def _safe(text: str) -> str:
    """Returns text in which every character can stand in a file's name, and none is lost."""
    return urllib.parse.quote(text, safe="+")
