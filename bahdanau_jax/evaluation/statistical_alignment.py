"""Links by word statistics alone: eflomal (Östling and Tiedemann 2016), where it is installed.

It knows the IBM models with a hidden Markov model and fertility, and samples; so its links differ
a little from run to run.
"""

import importlib
import importlib.util
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax.data.gold_links import Link, parse_line

MISSING = "no eflomal to compare with: pip install eflomal"  # not a dependency: it is GPL

Words = tuple[Sequence[str], Sequence[str]]  # of source and target


class StatisticalLinks(NamedTuple):
    """Links of one pair."""

    forward: set[Link]  # at most one for each target word
    backward: set[Link]  # at most one for each source word; source, target all the same


def installed() -> bool:
    """Returns whether eflomal can be imported."""
    return importlib.util.find_spec("eflomal") is not None


def statistical_links(
    pairs: Sequence[Words], training: Iterable[Words] = ()
) -> list[StatisticalLinks]:
    """Aligns pairs by eflomal.

    Args:
      pairs: to be aligned.
      training: further pairs of the same languages, to learn words from; those of `pairs` serve
        too, since eflomal aligns what it learns from.

    Returns:
      The links of each of `pairs`.
    """
    eflomal: Any = importlib.import_module("eflomal")
    numbers: dict[str, int] = {}
    sides: tuple[list[str], list[str]] = ([], [])
    for pair in (*pairs, *training):
        for side, words in zip(sides, pair, strict=True):
            # Numbers, since words may hold spaces; case doesn't count, as in eflomal itself.
            known = (numbers.setdefault(word.lower(), len(numbers)) for word in words)
            side.append(" ".join(map(str, known)))
    with tempfile.TemporaryDirectory() as directory:
        paths = [Path(directory, name) for name in ("forward", "backward")]
        eflomal.Aligner().align(*sides, *map(str, paths))
        lines = [path.read_text(encoding="utf-8").split("\n") for path in paths]
    read = [[set(parse_line(line).sure) for line in side[: len(pairs)]] for side in lines]
    return [StatisticalLinks(*links) for links in zip(*read, strict=True)]
