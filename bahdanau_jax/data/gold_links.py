"""Links between the words of sentence pairs, read and written as Pharaoh lines or a table.

A Pharaoh line has the links of one pair, separated by spaces: `0-1` joins the first source word to
the second target word. In gold links `i-j` is sure, `i?j` (or `ipj`) possible.
"""

import os
import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from bahdanau_jax.errors import InputError
from bahdanau_jax.lines import read_lines

Link = tuple[int, int]  # source word, target word, counted from 0

_LINK = re.compile(r"([0-9]+)([-?p])([0-9]+)", re.ASCII)
_NUMBER = re.compile("[0-9]+", re.ASCII)


class GoldLinks(NamedTuple):
    """What annotators said of one pair (Och and Ney 2003, section 4)."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # the sure ones are among them


class _Entry(NamedTuple):
    """A link as a file has it."""

    line: int  # from 1
    pair: int  # as it is numbered there
    source: int  # words, as they are counted there
    target: int
    sure: bool

    def fits(self, lengths: tuple[int, int], base: int) -> bool:
        """Returns whether both words are there if words are counted from `base`."""
        words = self.source - base, self.target - base
        return all(0 <= word < length for word, length in zip(words, lengths, strict=True))


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
    return _gold(((i, j), sure) for i, j, sure in _pharaoh_links(line))


def reverse(gold: GoldLinks) -> GoldLinks:
    """Returns the links of the pair whose source is the other's target."""
    return GoldLinks(*(frozenset((j, i) for i, j in links) for links in gold))


def read_gold(
    path: str | os.PathLike[str],
    pairs: Sequence[tuple[Sequence[str], Sequence[str]]],
    base: int | None = None,
) -> list[GoldLinks]:
    """Reads the gold links of sentence pairs from a file.

    Args:
      path: Pharaoh lines, one a pair; or, where the first word of the file is a number, the table
        of the shared task of Mihalcea and Pedersen 2003: pair, source word, target word, and `S`
        (sure) or `P` (possible), sure where it is left out, with white space between. Its pairs
        are numbered from 1; or from 0, or from any number if the first and the last have links.
      pairs: source and target words of each pair.
      base: the number of the first word of a sentence, 0 or 1; None: 0 in Pharaoh lines, 1 in a
        table.

    Returns:
      The links of each pair.

    Raises:
      InputError: the file can't be read, a line is none of these, the number of lines isn't that
        of the pairs, or a link leads to a word that isn't there.
    """
    path = pathlib.Path(path)
    lines = list(read_lines(path))
    words = next((line.split() for line in lines if line.strip()), [""])
    table = bool(_NUMBER.fullmatch(words[0]))
    base = int(table) if base is None else base
    entries = list(_read_table(path, lines) if table else _read_pharaoh(path, lines, len(pairs)))
    first = _first_pair(path, entries, len(pairs)) if table else 1
    lengths = [(len(source), len(target)) for source, target in pairs]
    _check_words(path, entries, lengths, first, base)
    found: list[list[tuple[Link, bool]]] = [[] for _ in pairs]
    for entry in entries:
        link = entry.source - base, entry.target - base
        found[entry.pair - first].append((link, entry.sure))
    return [_gold(links) for links in found]


def _gold(links: Iterable[tuple[Link, bool]]) -> GoldLinks:
    """Returns links, each with whether it is sure, as gold links."""
    links = list(links)
    sure = frozenset(link for link, is_sure in links if is_sure)
    return GoldLinks(sure, frozenset(link for link, _ in links))


def _pharaoh_links(line: str) -> Iterator[tuple[int, int, bool]]:
    for text in line.split():
        match = _LINK.fullmatch(text)
        if not match:
            raise ValueError(f"{text!r} is no link; write i-j (sure) or i?j (possible)")
        yield int(match[1]), int(match[3]), match[2] == "-"


def _read_pharaoh(path: pathlib.Path, lines: list[str], count: int) -> Iterator[_Entry]:
    if len(lines) != count:
        raise InputError(
            f"{path} has {len(lines)} lines of links, but there are {count} pairs; give a line for "
            "each pair, an empty one where it has no link"
        )
    for number, line in enumerate(lines, 1):
        try:
            for link in _pharaoh_links(line):
                yield _Entry(number, number, *link)
        except ValueError as error:
            raise InputError(f"{path}, line {number}: {error}") from error


def _read_table(path: pathlib.Path, lines: list[str]) -> Iterator[_Entry]:
    for number, line in enumerate(lines, 1):
        columns = line.split()
        if not columns:
            continue
        *numbers, mark = columns if len(columns) == 4 else [*columns, "S"]
        whole = len(numbers) == 3 and all(map(_NUMBER.fullmatch, numbers))
        if not whole or mark.upper() not in ("S", "P"):
            raise InputError(
                f"{path}, line {number}: needs pair, source word and target word as numbers, and S "
                "or P or nothing, with spaces or tabs between"
            )
        pair, source, target = map(int, numbers)
        yield _Entry(number, pair, source, target, mark.upper() == "S")


def _first_pair(path: pathlib.Path, entries: list[_Entry], count: int) -> int:
    """Returns the number that a table gives the first pair."""
    least, most = (choose(entries, key=lambda entry: entry.pair) for choose in (min, max))
    first = min(least.pair, 1)
    if most.pair - first < count:
        return first
    if most.pair - least.pair + 1 == count:
        return least.pair
    raise InputError(
        f"{path}, line {most.line}: there are {count} pairs, and the table's have numbers from "
        f"{least.pair} to {most.pair}; number the pairs from 1"
    )


def _check_words(
    path: pathlib.Path,
    entries: list[_Entry],
    lengths: list[tuple[int, int]],
    first: int,
    base: int,
) -> None:
    """Raises InputError if a link leads to a word that isn't there."""
    for entry in entries:
        source, target = lengths[entry.pair - first]
        if entry.fits((source, target), base):
            continue
        other, hint = 1 - base, ""
        if all(e.fits(lengths[e.pair - first], other) for e in entries):
            hint = f"; counted from {other}, all links fit: give --gold_base={other}"
        raise InputError(
            f"{path}, line {entry.line}: pair {entry.pair} has a link "
            f"{entry.source}-{entry.target} (counted from {base}), but only {source} source and "
            f"{target} target words{hint}"
        )
