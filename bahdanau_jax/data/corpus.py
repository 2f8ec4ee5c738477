"""A named source of sentence pairs, `KIND:NAME`: TFDS, lines, tables or records.

Whatever the source, its splits are called `train`, `dev` and, for each test set, by its own name;
its text is NFC-normalised; and it is read as a stream, as often as it is asked for.
"""

import collections
import dataclasses
import hashlib
import pathlib
import unicodedata
from collections.abc import Callable, Iterator
from typing import Protocol

from bahdanau_jax.config import DataConfig
from bahdanau_jax.data import file_stamps
from bahdanau_jax.data.gold_links import GoldLinks
from bahdanau_jax.data.record_files import CsvSource, JsonlSource, ParquetSource
from bahdanau_jax.data.text_files import TextSource, TsvSource
from bahdanau_jax.data.tfds_source import TfdsSource
from bahdanau_jax.errors import InputError

_DEV_NAMES = ("validation", "val", "valid")


@dataclasses.dataclass(frozen=True)
class Example:
    """A source sentence and its references, at least one."""

    source: str
    references: tuple[str, ...]


class Source(Protocol):
    """What a kind of source has to offer; its text is not normalised yet."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits there are: `train`, `dev`, test sets by their own names."""
        ...

    def rows(self, split: str) -> Iterator[tuple[str, ...]]:
        """Yields a source and its references, one tuple for each example of `split`."""
        ...

    def files(self, split: str) -> list[pathlib.Path]:
        """Returns the files that `split` is read from."""
        ...


class Corpus:
    """The examples of a source, checked and normalised.

    Attributes:
      name: `data.source`.
    """

    def __init__(self, config: DataConfig):
        """Opens the source; raises InputError if it isn't there, with what to do."""
        self._lowercase = config.lowercase
        self.name = config.source
        self._how = repr(
            (config.source, config.source_language, config.target_language, config.lowercase)
        )
        self._source = _open(config)
        self._fingerprints: dict[str, str] = {}

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits there are: `train`, `dev`, and test sets by their own names."""
        return self._source.splits

    @property
    def alignment(self) -> Callable[[str], list[int]] | None:
        """The rule from a source to the source symbol of each target symbol; None: not known."""
        return self._source.alignment if isinstance(self._source, TfdsSource) else None

    def links(self, split: str) -> list[GoldLinks] | None:
        """Returns the gold links between words of every example of a split; None: not known."""
        if not isinstance(self._source, TfdsSource):
            return None
        return self._source.links(self.resolve_split(split))

    def resolve_split(self, name: str) -> str:
        """Returns the split that `name` stands for.

        Args:
          name: a split's own name; `validation`, `val` or `valid` for `dev`; `test` for the only
            test set.

        Returns:
          One of `splits`.

        Raises:
          InputError: there is no such split, or `test` could be any of several.
        """
        wanted = "dev" if name in _DEV_NAMES else name
        if wanted in self.splits:
            return wanted
        tests = [split for split in self.splits if split.startswith("test")]
        if wanted == "test" and len(tests) == 1:
            return tests[0]
        if wanted == "test" and tests:
            raise InputError(f"{self.name} has several test splits; name one: {', '.join(tests)}")
        there = ", ".join(self.splits) or "none"
        raise InputError(f"{self.name} has no split {name}; its splits: {there}")

    def examples(self, split: str) -> Iterator[Example]:
        """Yields the examples of a split in their order, empty ones too.

        Args:
          split: any name that `resolve_split` takes.

        Yields:
          One example for each line, so that the n-th output belongs to the n-th line.

        Raises:
          InputError: there is no such split, its text can't be used, or it isn't what it was when
            this process read it before.
        """
        split, digest = self.resolve_split(split), hashlib.sha256()
        for source, *references in self._source.rows(split):
            example = Example(
                normalize(source, self._lowercase),
                tuple(normalize(reference, self._lowercase) for reference in references),
            )
            # Neither mark occurs in the text, so that no two splits look the same.
            row = "\0".join((example.source, *example.references)) + "\n"
            digest.update(row.encode())
            yield example
        self.confirm(split, digest.hexdigest()[:16])

    def confirm(self, split: str, fingerprint: str) -> None:
        """Notes the fingerprint of a split, and raises InputError if another one was noted."""
        if self._fingerprints.setdefault(self.resolve_split(split), fingerprint) != fingerprint:
            raise InputError(
                f"{self.name}: the text of {split} changed while it was read; give the same "
                "command again once nobody writes to it"
            )

    def training_lines(self) -> Iterator[tuple[str, str]]:
        """Yields every (source, reference) of the training split, those without text too."""
        for example in self.examples("train"):
            for reference in example.references:
                yield example.source, reference

    def pairs(self) -> "TrainingPairs":
        """Returns the training pairs, read afresh at each iteration."""
        return TrainingPairs(self)

    def stamp(self, split: str) -> str | None:
        """Returns what stands for the state of a split's files; None if they changed just now."""
        split = self.resolve_split(split)
        return file_stamps.stamp(self._source.files(split), f"{self._how} {split}")

    def fingerprint(self, split: str) -> str:
        """Returns 16 hexadecimal digits that stand for the normalised text of a split.

        Args:
          split: any name that `resolve_split` takes.

        Returns:
          The beginning of a SHA-256 over every example; reads the split unless it was read before.

        Raises:
          InputError: as `examples`.
        """
        split = self.resolve_split(split)
        if split not in self._fingerprints:
            collections.deque(self.examples(split), maxlen=0)
        return self._fingerprints[split]


class TrainingPairs:
    """The (source, target) pairs of the training split; every reference is a pair of its own.

    Pairs with an empty side are left out; `empty` counts those of the last whole iteration.
    """

    def __init__(self, corpus: Corpus):
        self._corpus = corpus
        self.empty = 0

    def __iter__(self) -> Iterator[tuple[str, str]]:
        kept = empty = 0
        for pair in self._corpus.training_lines():
            if has_text(*pair):
                kept += 1
                yield pair
            else:
                empty += 1
        self.empty = empty
        if not kept:
            raise InputError(
                f"the training split has no pair with text on both sides ({empty} empty); "
                "check data.source"
            )


def has_text(source: str, target: str) -> bool:
    """Returns whether both sides of a pair have text, without which nothing is trained on it."""
    return bool(source.strip() and target.strip())


def normalize(text: str, lowercase: bool = False) -> str:
    """Returns text as the model sees it.

    Args:
      text: one sentence.
      lowercase: as `data.lowercase`.

    Returns:
      The text in lower case if asked for, in Unicode's normalisation form C, on one line.
    """
    if "\n" in text or "\r" in text:
        text = text.replace("\r\n", " ").replace("\n", " ").replace("\r", " ")
    if lowercase:
        text = text.lower()
    return unicodedata.normalize("NFC", text)


def source_text(text: str) -> str:
    """Returns a source, normalised, as every mode reads it: nothing where it is blank."""
    return text if text.strip() else ""


def _open(config: DataConfig) -> Source:
    kind, _, name = config.source.partition(":")
    records = {made.KIND: made for made in (JsonlSource, CsvSource, ParquetSource)}
    if kind in ("text", "tsv", "tfds", *records) and not name:
        raise InputError(f"data.source={config.source} names no data; give {kind}:NAME")
    if kind == "text":
        return TextSource(name, config.source_language, config.target_language)
    if kind == "tsv":
        return TsvSource(name)
    if kind == "tfds":
        return TfdsSource(name, config.source_language, config.target_language, config.directory)
    if kind in records:
        return records[kind](name, config.source_language, config.target_language)
    raise InputError(
        "data.source must be text:DIR, tsv:DIR, jsonl:DIR, csv:DIR, parquet:DIR or "
        f"tfds:NAME[/CONFIG], not {config.source!r}"
    )
