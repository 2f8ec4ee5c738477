"""Alternatives of the same number of parameters, so that a comparison is of form and not of size.

--match=params                    the field is chosen; see `FIELDS`
--match=params:model.embedding    this one
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax

from bahdanau_jax.config import Config
from bahdanau_jax.data.pipeline import open_data
from bahdanau_jax.data.vocabularies import Vocabularies
from bahdanau_jax.errors import InputError
from bahdanau_jax.evaluation.trained_run import make_model
from bahdanau_jax.fields import resolve, value_of, with_values
from bahdanau_jax.model.seq2seq import initial_params
from bahdanau_jax.sweeps.grid import Cell, Point
from bahdanau_jax.validation import validate

# Tried in this order: what belongs to the alternatives themselves first.
FIELDS = (
    "model.attention.units",
    "model.readout_units",
    "model.decoder.units",
    "model.encoder.units",
    "model.embedding",
)
CLOSE = 0.005  # share of the parameters by which a match may differ
LARGEST = 16  # times its value that a field is tried with


class Match(NamedTuple):
    """How a cell was sized.

    Attributes:
      cell: its name.
      parameters: number of its parameters, as it is sized now.
      target: number of the first cell's parameters, which all cells are sized to.
      before: number of its parameters before it was sized.
      field: the field that was changed; empty where none had to be.
      old: the field's value before.
      new: the field's value now.
    """

    cell: str
    parameters: int
    target: int
    before: int
    field: str = ""
    old: int = 0
    new: int = 0

    def sentence(self) -> str:
        """Says it in words."""
        share = self.parameters / self.target - 1
        reached = f"{self.parameters:,} parameters, {share:+.2%} against {self.target:,}"
        if not self.field:
            return f"{self.cell}: unchanged, {reached}"
        return f"{self.cell}: {self.field} {self.old} → {self.new}, {reached}"


def match_parameters(
    cells: Sequence[Cell], how: str, say: Callable[[str], None]
) -> tuple[list[Cell], list[Match]]:
    """Sizes all cells to the number of parameters that the first one has.

    Args:
      cells: at least one.
      how: `params`, or `params:FIELD` where this field is to be changed.
      say: told what takes long.

    Returns:
      The cells, under the same names, and how each was sized.

    Raises:
      InputError: `how` can't be understood, the field is swept, or the data can't be read.
    """
    kind, _, name = how.partition(":")
    if kind != "params":
        raise InputError(f"--match must be params or params:FIELD; it is {how!r}")
    fields = (resolve(name, "--match"),) if name else FIELDS
    swept = {path for cell in cells for path in cell.values}
    if name and (fields[0] in swept or not isinstance(value_of(cells[0].config, fields[0]), int)):
        raise InputError(f"--match={how}: {fields[0]} must be a whole number that isn't swept")
    fields = [field for field in fields if field not in swept]
    count = ParameterCounter(say)
    target = count(cells[0].config)
    matched, matches = [], []
    for cell in cells:
        match = _match(cell, target, fields, count)
        matches.append(match)
        change: Point = {match.field: match.new} if match.field else {}
        matched.append(
            dataclasses.replace(cell, matched=change, config=with_values(cell.config, change))
        )
    return matched, matches


class ParameterCounter:
    """Counts the parameters of configurations; reads each corpus once, for its vocabularies."""

    def __init__(self, say: Callable[[str], None]):
        self._say = say
        self._vocabularies: dict[str, Vocabularies] = {}
        self._counts: dict[str, int] = {}

    def __call__(self, config: Config) -> int:
        """Returns the number of parameters; allocates none."""
        data, key = repr(config.data), repr((config.data, config.model))
        if data not in self._vocabularies:
            self._vocabularies[data] = open_data(config.data, None, self._say).vocabularies
        if key not in self._counts:
            model = make_model(config, self._vocabularies[data])
            params = jax.eval_shape(lambda: initial_params(model, jax.random.key(0)))
            self._counts[key] = sum(math.prod(x.shape) for x in jax.tree.leaves(params))
        return self._counts[key]


def _match(cell: Cell, target: int, fields: Sequence[str], count: Callable[[Config], int]) -> Match:
    before = count(cell.config)
    best = Match(cell.name, before, target, before)
    for field in fields:
        if abs(best.parameters - target) <= CLOSE * target:
            break
        old = value_of(cell.config, field)
        assert isinstance(old, int)

        def parameters(value: int, field: str = field) -> int | None:
            config = with_values(cell.config, {field: value})
            try:
                validate(config)
            except InputError:
                return None
            return count(config)

        new = _nearest(parameters, target, old)
        reached = parameters(new)
        if reached is not None and abs(reached - target) < abs(best.parameters - target):
            best = Match(cell.name, reached, target, before, field, old, new)
    return best


def _nearest(parameters: Callable[[int], int | None], target: int, old: int) -> int:
    """Returns the value whose number of parameters, which grows with it, is nearest the target."""
    low, high = 1, LARGEST * old
    while high - low > 1:
        middle = (low + high) // 2
        reached = parameters(middle)
        if reached is None:
            return old  # this field can't be changed alone
        low, high = (middle, high) if reached <= target else (low, middle)
    both = [value for value in (low, high) if parameters(value) is not None]
    return min(both or [old], key=lambda value: abs((parameters(value) or 0) - target))
