"""Text to ids and back: one vocabulary a side, built from the training text, kept in a run.

The kinds are `characters`, `symbols` and `words` (vocabulary.py), `unigram` and `bpe` (pieces.py);
all begin with the ids PAD, BOS, EOS and UNK, and all are used in the same way.
"""

import dataclasses
import json
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Self

from bahdanau_jax.config import VocabularyConfig
from bahdanau_jax.data.pieces import PIECE_KINDS, PieceVocabulary, build_pieces
from bahdanau_jax.data.vocabulary import (
    TOKEN_KINDS,
    UNKNOWN_MARK,
    TokenVocabulary,
    Vocabulary,
    build_tokens,
)
from bahdanau_jax.durable import digest, write_atomically
from bahdanau_jax.errors import InputError
from bahdanau_jax.stored_files import open_regular, parse_json

__all__ = [
    "KINDS",
    "UNKNOWN_MARK",
    "Vocabularies",
    "Vocabulary",
    "build",
    "build_vocabularies",
    "load",
]

KINDS = TOKEN_KINDS + PIECE_KINDS
_INDEX = "vocabulary.json"
_REMEDY = "bring back a copy, or train anew in another workdir"


def build(kind: str, size: int, texts: Iterable[str]) -> Vocabulary:
    """Makes a vocabulary from text; the same text gives the same vocabulary.

    Args:
      kind: one of `KINDS`.
      size: entries, the four special ones included. `characters`, `symbols` and `words` keep the
        most frequent, all of them if 0; `unigram` and `bpe` fill the size exactly.
      texts: the sentences, read once.

    Returns:
      The vocabulary.

    Raises:
      InputError: the kind is unknown, the size can't work, or the text is empty.
    """
    if kind in TOKEN_KINDS:
        return build_tokens(kind, size, texts)
    if kind in PIECE_KINDS:
        return build_pieces(kind, size, texts)
    raise InputError(f"unknown vocabulary kind {kind!r}; choose from {', '.join(KINDS)}")


def load(path: str | os.PathLike[str]) -> Vocabulary:
    """Reads a vocabulary that its `save` wrote.

    Args:
      path: a file that ends in `.json` (a list of tokens) or `.model` (SentencePiece).

    Returns:
      The vocabulary.

    Raises:
      InputError: the file is missing or damaged.
    """
    path = pathlib.Path(path)
    content = _read(path)
    try:
        if path.suffix == PieceVocabulary.suffix:
            return PieceVocabulary.from_bytes(content)
        return TokenVocabulary.from_bytes(content)
    except ValueError as error:
        raise InputError(f"vocabulary file {path} is damaged: {error}; {_REMEDY}") from error


@dataclasses.dataclass(frozen=True)
class Vocabularies:
    """The source's and the target's vocabulary; one and the same object if joint."""

    source: Vocabulary
    target: Vocabulary

    @property
    def joint(self) -> bool:
        """Whether both sides share one vocabulary."""
        return self.source is self.target

    @property
    def fingerprint(self) -> str:
        """16 hexadecimal digits that stand for both sides."""
        return digest(f"{self.source.fingerprint} {self.target.fingerprint}".encode())

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes both sides, and `vocabulary.json` which names them, into `directory`."""
        directory = pathlib.Path(directory)
        directory.mkdir(parents=True, exist_ok=True)
        index = {}
        for side, vocabulary in (("source", self.source), ("target", self.target)):
            name = ("joint" if self.joint else side) + vocabulary.suffix
            vocabulary.save(directory / name)
            index[side] = {"file": name, "fingerprint": vocabulary.fingerprint}
        write_atomically(directory / _INDEX, json.dumps(index, indent=1) + "\n")

    @classmethod
    def load_saved(cls, directory: str | os.PathLike[str]) -> Self | None:
        """Reads what `save` wrote, as `load`; None where it hasn't written anything yet."""
        return cls.load(directory) if (pathlib.Path(directory) / _INDEX).exists() else None

    @classmethod
    def load(cls, directory: str | os.PathLike[str]) -> Self:
        """Reads what `save` wrote.

        Args:
          directory: where `save` wrote.

        Returns:
          Both sides.

        Raises:
          InputError: a file is missing, damaged, or not the one that was saved.
        """
        directory = pathlib.Path(directory)
        content = _read(directory / _INDEX)
        try:
            index = parse_json(content)
            names = [str(index[side]["file"]) for side in ("source", "target")]
            saved = {str(entry["file"]): entry["fingerprint"] for entry in index.values()}
            if any(pathlib.PurePath(name).name != name for name in saved):
                raise ValueError("a file of another directory")
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(
                f"vocabulary file {directory / _INDEX} is damaged; {_REMEDY}"
            ) from error
        sides = {name: load(directory / name) for name in saved}
        for name, vocabulary in sides.items():
            if vocabulary.fingerprint != saved[name]:
                raise InputError(
                    f"vocabulary file {directory / name} isn't the one saved there; {_REMEDY}"
                )
        return cls(*(sides[name] for name in names))


def build_vocabularies(config: VocabularyConfig, pairs: Iterable[tuple[str, str]]) -> Vocabularies:
    """Makes both sides' vocabularies from the training pairs.

    Args:
      config: kind and size of each side, and whether they are joint.
      pairs: (source, target); starts afresh each time it is iterated over.

    Returns:
      The vocabularies.

    Raises:
      InputError: as `build`, beginning with the side that it concerns; or the text can't be read.
    """
    if config.joint:
        texts = (text for pair in pairs for text in pair)
        joint = _build_side("joint", config.kind, config.size, texts)
        return Vocabularies(joint, joint)
    source = _build_side("source", config.kind, config.size, (source for source, _ in pairs))
    target = _build_side("target", *config.sides[1], (target for _, target in pairs))
    return Vocabularies(source, target)


def _build_side(side: str, kind: str, size: int, texts: Iterable[str]) -> Vocabulary:
    wrong_text: list[InputError] = []

    def read() -> Iterator[str]:
        try:
            yield from texts
        except InputError as error:
            wrong_text.append(error)
            raise

    try:
        return build(kind, size, read())
    except InputError as error:
        if wrong_text:  # the text's fault, and not this side's
            raise wrong_text[0] from None
        raise InputError(f"{side} vocabulary: {error}") from error


def _read(path: pathlib.Path) -> bytes:
    try:
        with open_regular(path) as stream:
            return stream.read()
    except OSError as error:
        raise InputError(f"can't read the vocabulary file {path} ({error.strerror})") from error
