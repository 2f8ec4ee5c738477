"""Links between the words of the training pairs, from a file, as the training step reads them.

The file has a Pharaoh line for each pair of the training text, in its order, pairs with an empty
side too. Words are those that alignments are measured by: what U+0020 separates, or characters
where the vocabulary is of characters. A link of two words joins every token of the one with every
token of the other.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import file_stamps, token_store
from bahdanau_jax.data.corpus import Corpus, has_text
from bahdanau_jax.data.gold_links import Link, parse_line
from bahdanau_jax.data.store_files import Pair
from bahdanau_jax.data.text_files import given_path
from bahdanau_jax.data.token_store import StoreError, TokenStore
from bahdanau_jax.data.vocabularies import Vocabularies, Vocabulary
from bahdanau_jax.durable import digest
from bahdanau_jax.errors import InputError
from bahdanau_jax.lines import read_lines
from bahdanau_jax.runtime.setup import cache_directory
from bahdanau_jax.special_ids import UNK

FIELD = "data.train_links"


class LinkStore:
    """The links of every training pair, by its number in the store of its tokens.

    They lie in a token store of their own, which has every check that ids need: on its source side
    the source tokens' places, on its target side the target tokens', moved past the special ids.
    """

    def __init__(self, places: TokenStore):
        """Takes over a store, as `open_links` makes it."""
        self._places = places

    def __len__(self) -> int:
        return len(self._places)

    def weights(self, pairs: np.ndarray, rows: int, source: int, target: int) -> np.ndarray:
        """Fills an array with what each target token should attend to.

        Args:
          pairs: int[n], numbers of pairs, n <= rows; the rows after them are padding.
          rows: rows of the array.
          source: positions of a source sentence, end mark counted.
          target: positions of a target sentence, end mark counted.

        Returns:
          float32[rows, target, source]: equal parts for all source tokens that a target token is
          linked with, one together; zeros for a token without links, and for the end mark.
        """
        width = int(self._places.source_lengths[pairs].max(initial=1))
        sides = (self._places.sources, self._places.targets)
        of_source, of_target = (fill(pairs, rows, width) for fill in sides)
        row, column = np.nonzero(of_source >= UNK)
        linked = np.zeros((rows, target, source), np.float32)
        linked[row, of_target[row, column] - UNK, of_source[row, column] - UNK] = 1.0
        return linked / np.maximum(linked.sum(axis=-1, keepdims=True), 1.0)


def links_path(config: DataConfig) -> Path:
    """Returns the file that `data.train_links` names; raises InputError if it is none."""
    path = given_path(config.train_links, FIELD)
    if not path.is_file():
        raise InputError(f"{FIELD}: {path} is no file; give one with a line for each training pair")
    return path


def fingerprint(config: DataConfig) -> str:
    """Returns 16 hexadecimal digits that stand for the lines of `data.train_links`.

    Raises:
      InputError: the file can't be read.
    """
    path = links_path(config)

    def read() -> str:
        whole = hashlib.sha256()
        for line in read_lines(path):
            whole.update(f"{line}\n".encode())
        return whole.hexdigest()[:16]

    mark = file_stamps.stamp([path], "links")
    return file_stamps.remembered(cache_directory() / "fingerprints", mark, read)


def open_links(
    config: DataConfig,
    corpus: Corpus,
    vocabularies: Vocabularies,
    tokens: TokenStore,
    text: str,
    say: Callable[[str], None],
) -> LinkStore:
    """Opens the links of the training pairs, after making them if this is the first time.

    Args:
      config: `train_links` and `links_base` are read.
      corpus: of the training pairs.
      vocabularies: of both sides.
      tokens: the training pairs as ids.
      text: stands for the training text and the vocabularies.
      say: told what takes long.

    Returns:
      The store; it lies in the user's cache directory beside that of the ids.

    Raises:
      InputError: the file can't be read, a line is no Pharaoh line, the number of lines isn't that
        of the pairs, or a link leads to a word that isn't there.
    """
    path, base = links_path(config), config.links_base
    key = digest(repr(["links of tokens", text, fingerprint(config), base]).encode())
    directory = cache_directory() / "tokens" / key
    longest = (int(side.max(initial=1)) for side in (tokens.source_lengths, tokens.target_lengths))
    source, target = (UNK + length for length in longest)
    try:
        return LinkStore(token_store.open(directory, (source, target)))
    except StoreError:
        say(f"reading the links of the training pairs, {path}")
    links = _token_links(corpus, vocabularies, path, base)
    return LinkStore(token_store.build(directory, links, (source, target)))


def _token_links(
    corpus: Corpus, vocabularies: Vocabularies, path: Path, base: int
) -> Iterator[Pair]:
    """Yields the linked tokens of each pair that has text: source places, and the target's."""
    for number, (pair, line) in _pairs_with_links(corpus, path):
        if pair is None or line is None:
            raise _miscounted(path, *_count(corpus, path))
        lengths = _word_lengths(vocabularies, pair)
        links = _links(path, number, line, base)
        if wrong := [link for link in links if not _fits(link, lengths)]:
            raise _outside(corpus, vocabularies, path, base, number, wrong[0])
        if not has_text(*pair):
            continue
        begins = [list(itertools.accumulate(side, initial=0)) for side in lengths]
        tokens = [
            (s, t)
            for i, j in links
            for s in range(begins[0][i], begins[0][i + 1])
            for t in range(begins[1][j], begins[1][j + 1])
        ]
        yield [UNK + s for s, _ in tokens], [UNK + t for _, t in tokens]


def _pairs_with_links(
    corpus: Corpus, path: Path
) -> Iterator[tuple[int, tuple[tuple[str, str] | None, str | None]]]:
    """Numbers pairs and their lines from 1; gives None for those that one of the two lacks.

    To be looped over without a name: an error keeps what has one, and with it the open file.
    """
    return enumerate(itertools.zip_longest(corpus.training_lines(), read_lines(path)), 1)


def _links(path: Path, number: int, line: str, base: int) -> list[Link]:
    """Returns the links of a line, sure and possible ones, their words counted from 0."""
    try:
        return sorted((i - base, j - base) for i, j in parse_line(line).possible)
    except ValueError as error:
        raise InputError(f"{FIELD}: {path}, line {number}: {error}") from error


def _word_lengths(vocabularies: Vocabularies, pair: tuple[str, str]) -> tuple[list[int], list[int]]:
    """Returns how many tokens each word of the source has, and of the target."""

    def of(vocabulary: Vocabulary, text: str) -> list[int]:
        return vocabulary.word_lengths(vocabulary.encode(text))

    return of(vocabularies.source, pair[0]), of(vocabularies.target, pair[1])


def _fits(link: Link, lengths: tuple[list[int], list[int]]) -> bool:
    """Returns whether both words of a link are there."""
    return all(0 <= word < len(side) for word, side in zip(link, lengths, strict=True))


def _count(corpus: Corpus, path: Path) -> tuple[int, int]:
    """Returns how many lines the file has, and how many pairs the training text."""
    return sum(1 for _ in read_lines(path)), sum(1 for _ in corpus.training_lines())


def _miscounted(path: Path, lines: int, pairs: int) -> InputError:
    return InputError(
        f"{FIELD}: {path} has {lines:,} lines of links, but the training text has {pairs:,} pairs; "
        "give a line for each pair, an empty one where it has no link"
    )


def _outside(
    corpus: Corpus, vocabularies: Vocabularies, path: Path, base: int, number: int, link: Link
) -> InputError:
    """Returns what to say of a link, counted from 0, to a word that isn't there."""
    lines, pairs = _count(corpus, path)
    if lines != pairs:  # then the link may well be another pair's
        return _miscounted(path, lines, pairs)
    other, fits, sizes = 1 - base, True, (0, 0)
    for place, (pair, line) in _pairs_with_links(corpus, path):
        assert pair is not None and line is not None, "the lines were counted"
        lengths = _word_lengths(vocabularies, pair)
        if place == number:
            sizes = len(lengths[0]), len(lengths[1])
        fits = fits and all(_fits(moved, lengths) for moved in _links(path, place, line, other))
    hint = f"; counted from {other}, all links fit: set data.links_base={other}" if fits else ""
    return InputError(
        f"{FIELD}: {path}, line {number}: a link {link[0] + base}-{link[1] + base} (counted from "
        f"{base}), but only {sizes[0]} source and {sizes[1]} target words{hint}"
    )
