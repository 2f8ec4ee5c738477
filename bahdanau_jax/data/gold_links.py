"""Links between the words of sentence pairs, read and written as Pharaoh lines or a table.

A Pharaoh line has the links of one pair, separated by spaces: `0-1` joins the first source word to
the second target word. In gold links `i-j` is sure, `i?j` (or `ipj`) possible.
"""

import os
import pathlib
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bahdanau_jax.errors import InputError
from bahdanau_jax.lines import read_lines

Link = tuple[int, int]  # source word, target word, counted from 0

_LINK = re.compile(r"([0-9]+)([-?p])([0-9]+)", re.ASCII)


class GoldLinks(NamedTuple):
    """What annotators said of one pair (Och and Ney 2003, section 4)."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # the sure ones are among them


def format_line(links: Iterable[Link]) -> str:
    """Returns links as a Pharaoh line without its end, in the order of the source words."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def parse_line(line: str) -> GoldLinks:
    """Reads a Pharaoh line.

    Args:
      line: links separated by white space; empty for a pair without links.

    Returns:
      The links; one given as both sure and possible is sure.

    Raises:
      ValueError: a part of the line is no link; names it.
    """
    sure, possible = set(), set()
    for text in line.split():
        match = _LINK.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r} is no link; write i-j (sure) or i?j (possible)")
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldLinks(frozenset(sure), frozenset(possible))


def reverse(gold: GoldLinks) -> GoldLinks:
    """Returns the links of the pair whose source is the other's target."""
    return GoldLinks(*(frozenset((j, i) for i, j in links) for links in gold))


def read_gold(
    path: str | os.PathLike[str], pairs: Sequence[tuple[Sequence[str], Sequence[str]]]
) -> list[GoldLinks]:
    """Reads the gold links of sentence pairs from a file.

    Args:
      path: Pharaoh lines, one a pair; or, where the first link has tabs, the table of the shared
        task of Mihalcea and Pedersen 2003: pair, source word and target word, counted from 1, and
        `S` (sure) or `P` (possible), sure where it is left out.
      pairs: source and target words of each pair.

    Returns:
      The links of each pair.

    Raises:
      InputError: the file can't be read, a line is none of these, the number of lines isn't that
        of the pairs, or a link leads to a word that isn't there.
    """
    path = pathlib.Path(path)
    lines = list(read_lines(path))
    read = _read_table if "\t" in next((line for line in lines if line), "") else _read_pharaoh
    gold = read(path, lines, len(pairs))
    for number, (links, (source, target)) in enumerate(zip(gold, pairs, strict=True), 1):
        for i, j in links.possible:
            if i >= len(source) or j >= len(target):
                raise InputError(
                    f"{path}: pair {number} has a link {i}-{j} (counted from 0), but only "
                    f"{len(source)} source and {len(target)} target words"
                )
    return gold


def _read_pharaoh(path: pathlib.Path, lines: list[str], count: int) -> list[GoldLinks]:
    if len(lines) != count:
        raise InputError(
            f"{path} has {len(lines)} lines of links, but there are {count} pairs; give a line for "
            "each pair, an empty one where it has no link"
        )
    gold = []
    for number, line in enumerate(lines, 1):
        try:
            gold.append(parse_line(line))
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}") from error
    return gold


def _read_table(path: pathlib.Path, lines: list[str], count: int) -> list[GoldLinks]:
    found: list[dict[Link, bool]] = [{} for _ in range(count)]
    for number, line in enumerate(lines, 1):
        columns = line.split("\t")
        if not line.strip():
            continue
        numbers = columns[:3]
        whole = len(numbers) == 3 and all(re.fullmatch("[0-9]+", n, re.ASCII) for n in numbers)
        mark = columns[3].strip().upper() if len(columns) > 3 else "S"
        if not whole or mark not in ("S", "P"):
            raise InputError(
                f"{path}, line {number}: needs pair, source word and target word, counted from 1, "
                "and S or P, with tabs between"
            )
        pair, source, target = map(int, numbers)
        if not 1 <= pair <= count or source < 1 or target < 1:
            raise InputError(
                f"{path}, line {number}: there are {count} pairs, and words are counted from 1"
            )
        links = found[pair - 1]
        link = source - 1, target - 1
        links[link] = links.get(link, False) or mark == "S"
    return [
        GoldLinks(frozenset(link for link, sure in links.items() if sure), frozenset(links))
        for links in found
    ]
