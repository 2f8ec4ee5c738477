"""The cells of a sweep: which values of which fields, checked, and named.

    model.attention.score=additive,dot      values of a field, as in fields.py
    @scores                                 a sweep that the experiment file has in its `SWEEPS`

Nothing here starts anything; a grid is known to be right before its first cell runs.
"""

import dataclasses
import hashlib
import itertools
import math
import urllib.parse
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from bahdanau_jax.config import Config
from bahdanau_jax.effects import ineffective, refuse_ineffective
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import (
    Value,
    parse_field,
    resolve,
    short_name,
    text_of,
    value_of,
    with_values,
)
from bahdanau_jax.validation import validate

SWEEPS = "SWEEPS"  # the name under which an experiment file offers named sweeps
LONGEST_NAME = 120  # characters of a cell's name; file systems take 255 bytes
MOST_CELLS = 10_000

SEEDS = ("seed", "data.seed")  # fields whose values repeat a configuration

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
      base: the configuration that the sweep's cells share.
    """

    name: str
    values: Point
    config: Config
    matched: Point = dataclasses.field(default_factory=dict)
    base: Config = dataclasses.field(default_factory=Config)

    def arguments(self) -> list[str]:
        """Returns the flags that make this cell's configuration of the sweep's."""
        fields, idle = self.values | self.matched, ineffective(self.config)
        return [f"--config.{p}={text_of(value)}" for p, value in fields.items() if p not in idle]


def expand(
    base: Config,
    sweeps: Sequence[str],
    named: Mapping[str, Any] | None = None,
    *,
    paired: bool = False,
    flag: str = "--sweep",
) -> list[Cell]:
    """Makes the cells of a sweep; every one of them is valid.

    Args:
      base: what the cells share.
      sweeps: as on the command line, at least one; see the head of this file.
      named: the experiment file's `SWEEPS`: for each name a dictionary of fields and lists of
        values, of which the product is taken, or a list of dictionaries of fields and values.
      paired: whether the first values of all sweeps make a cell, the second ones another, …;
        otherwise every value meets every other.
      flag: what a complaint calls it.

    Returns:
      The cells; the last sweep varies fastest.

    Raises:
      InputError: a sweep can't be read, or a cell can't work, which it names.
    """
    axes = [axis for sweep in sweeps for axis in _axes(sweep, base, named or {}, flag)]
    _check_axes(axes, paired, flag)
    count = len(axes[0].points) if paired else math.prod(len(axis.points) for axis in axes)
    if count > MOST_CELLS:
        raise InputError(f"{flag}: {count:,} cells are more than {MOST_CELLS:,}; leave some out")
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
    name = ",".join(f"{short_name(path)}={_safe(text_of(values[path]))}" for path in named)
    if len(name) > LONGEST_NAME:
        digest = hashlib.sha256(name.encode()).hexdigest()[:8]
        name = f"{name[: LONGEST_NAME - 9]}~{digest}"
    config = with_values(base, values)
    try:
        validate(config)
        # A named sweep may set a field in some of its points only: the others keep its value.
        refuse_ineffective(config, [p for p, v in values.items() if v != value_of(base, p)])
    except InputError as error:
        raise InputError(f"the cell {name} can't be run: {error}") from error
    return Cell(name, values, config, base=base)


def _axes(sweep: str, base: Config, named: Mapping[str, Any], flag: str) -> list[Axis]:
    """Returns the axes of one `--sweep`; a named one may be a product of several."""
    if not sweep.startswith("@"):
        path, values = parse_field(sweep, flag)
        return [Axis(tuple({path: value} for value in values), (path,))]
    name = sweep[1:]
    if name not in named:
        offered = ", ".join(f"@{known}" for known in named) or "none"
        raise InputError(
            f"{flag}={sweep}: the experiment file's {SWEEPS} has no such sweep; it has {offered}"
        )
    offer = named[name]
    _check_offer(offer, f"{flag}={sweep}")
    if isinstance(offer, Mapping):
        return [
            Axis(tuple({path: value} for value in values), (path,))
            for path, values in (
                (resolve(str(field), flag), values) for field, values in offer.items()
            )
        ]
    points = [{resolve(str(path), flag): value for path, value in point.items()} for point in offer]
    paths = list(dict.fromkeys(path for point in points for path in point))
    filled = [{path: point.get(path, value_of(base, path)) for path in paths} for point in points]
    different = [p for p in paths if any(x[p] != filled[0][p] for x in filled)]
    return [Axis(tuple(filled), tuple(different or paths))]


def _check_offer(offer: Any, given: str) -> None:
    """Raises InputError if what an experiment file offers under a name is no sweep."""

    def is_list(values: Any, kind: Any) -> bool:
        listed = isinstance(values, Collection) and not isinstance(values, str | bytes | Mapping)
        return listed and all(isinstance(value, kind) for value in values)

    if isinstance(offer, Mapping):
        right = all(is_list(values, Value) for values in offer.values())
    else:
        right = is_list(offer, Mapping)
        right = right and all(isinstance(v, Value) for point in offer for v in point.values())
    if not right:
        raise InputError(
            f"{given}: the experiment file's {SWEEPS} must have a dictionary of fields and lists "
            "of values there, or a list of dictionaries of fields and values"
        )


def _check_axes(axes: list[Axis], paired: bool, flag: str) -> None:
    if not axes or not all(axis.points and axis.named for axis in axes):
        raise InputError(f"{flag}: there are no values; give FIELD=v1,v2,… or a named sweep")
    fields = [path for axis in axes for path in axis.points[0]]
    for path in fields:
        if fields.count(path) > 1:
            raise InputError(f"{flag}: {path} is given twice; give all its values at once")
    for axis in axes:
        if len({tuple(point.values()) for point in axis.points}) < len(axis.points):
            raise InputError(f"{flag}: {', '.join(axis.named)} has the same values twice")
    if paired and len(axes) == 1:
        raise InputError(f"--zip pairs several {flag}, and there is one; leave --zip out")
    lengths = {len(axis.points) for axis in axes}
    if paired and len(lengths) > 1:
        counts = ", ".join(f"{short_name(a.named[0])} {len(a.points)}" for a in axes)
        raise InputError(f"--zip pairs sweeps of as many values each; there are: {counts}")


def _union(points: Sequence[Point]) -> Point:
    return {path: value for point in points for path, value in point.items()}


def _safe(text: str) -> str:
    """Returns text in which every character can stand in a file's name, and none is lost."""
    return urllib.parse.quote(text, safe="+")
