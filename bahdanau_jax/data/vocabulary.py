"""What every vocabulary can do, and vocabularies that are a list of tokens."""

import abc
import itertools
import json
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Self

from bahdanau_jax.durable import digest, write_atomically
from bahdanau_jax.errors import InputError
from bahdanau_jax.special_ids import BOS, EOS, PAD, UNK
from bahdanau_jax.stored_files import parse_json

UNKNOWN_MARK = "⁇"  # how UNK looks in decoded text
_MARKS = ("<pad>", "<s>", "</s>", UNKNOWN_MARK)

TOKEN_KINDS = ("characters", "symbols", "words")


class Vocabulary(abc.ABC):
    """A fixed, ordered set of tokens; `size` counts the special ones too.

    Special ones are reached by id only: text that looks like a special mark is ordinary text.
    """

    size: int
    fingerprint: str  # 16 hexadecimal digits of the SHA-256 of what it holds
    suffix: str  # of the file that `save` writes
    separator = " "  # between two words of a text

    @abc.abstractmethod
    def encode(self, text: str) -> list[int]:
        """Returns the ids of `text`, each from UNK to size - 1; no BOS, no EOS."""

    @abc.abstractmethod
    def _piece(self, token: int) -> str:
        """Returns the token of an id above UNK."""

    @abc.abstractmethod
    def _join(self, ids: list[int]) -> str:
        """Returns the text of ids that are UNK or above."""

    @abc.abstractmethod
    def _bytes(self) -> bytes:
        """Returns the content of the file that `save` writes."""

    def decode(self, ids: Iterable[int]) -> str:
        """Returns the text of `ids` up to the first EOS; PAD and BOS are skipped.

        Args:
          ids: integers from 0 to size - 1: int32[T], or any iterable of integers.

        Returns:
          The text; an UNK reads `UNKNOWN_MARK`.
        """
        kept = []
        for token in map(int, ids):
            if token == EOS:
                break
            if token not in (PAD, BOS):
                kept.append(self._checked(token))
        return self._join(kept)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Returns one readable token for each of `ids` (int32[T]), special ones included."""
        return [
            _MARKS[token] if token <= UNK else self._piece(token)
            for token in (self._checked(int(token)) for token in ids)
        ]

    @abc.abstractmethod
    def words(self, text: str) -> list[str]:
        """Returns the words of a text, as alignments and lengths in words count them.

        They are what U+0020 separates, but for `characters`, each of which is a word of its own.
        """

    @abc.abstractmethod
    def word_lengths(self, ids: Iterable[int]) -> list[int]:
        """Returns how many tokens each word has that `ids` (UNK or above) make up, in order."""

    def unknown_words(self, ids: Sequence[int]) -> list[bool]:
        """Returns whether each word that `ids` (UNK or above) make up has an UNK, in order."""
        ends = list(itertools.accumulate(self.word_lengths(ids), initial=0))
        return [UNK in ids[begin:end] for begin, end in itertools.pairwise(ends)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the vocabulary to `path`, which must end in `suffix` for `load` to read it."""
        write_atomically(path, self._bytes())

    def _checked(self, token: int) -> int:
        if not 0 <= token < self.size:
            raise IndexError(f"id {token} is outside the vocabulary of {self.size}")
        return token


class TokenVocabulary(Vocabulary):
    """A list of characters, symbols or words; what isn't in it becomes UNK."""

    suffix = ".json"

    def __init__(self, kind: str, tokens: Iterable[str]):
        self.kind = kind
        self._tokens = list(tokens)
        self._ids = {token: index for index, token in enumerate(self._tokens, UNK + 1)}
        self.separator = "" if kind == "characters" else " "
        self.size = UNK + 1 + len(self._tokens)
        self.fingerprint = digest(json.dumps([kind, self._tokens]).encode())

    def encode(self, text: str) -> list[int]:
        """Returns the ids of `text`, UNK for what isn't in the list; no BOS, no EOS."""
        return [self._ids.get(token, UNK) for token in _split(self.kind, text)]

    def words(self, text: str) -> list[str]:
        """Returns the tokens of `text`, also those that the list doesn't have."""
        return list(_split(self.kind, text))

    def word_lengths(self, ids: Iterable[int]) -> list[int]:
        """Returns a one for each of `ids`: every token is a word."""
        return [1 for _ in ids]

    def _piece(self, token: int) -> str:
        return self._tokens[token - UNK - 1]

    def _join(self, ids: list[int]) -> str:
        return self.separator.join(self.tokens(ids))

    def _bytes(self) -> bytes:
        content = {"kind": self.kind, "fingerprint": self.fingerprint, "tokens": self._tokens}
        return (json.dumps(content, ensure_ascii=False, indent=1) + "\n").encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `save` wrote; raises ValueError if it isn't that."""
        value = parse_json(content)
        if not isinstance(value, dict) or value.get("kind") not in TOKEN_KINDS:
            raise ValueError("it holds no list of tokens")
        tokens = value.get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ValueError("it holds no list of tokens")
        vocabulary = cls(value["kind"], tokens)
        if vocabulary.fingerprint != value.get("fingerprint"):
            raise ValueError("its tokens don't match its fingerprint")
        return vocabulary


def build_tokens(kind: str, size: int, texts: Iterable[str]) -> TokenVocabulary:
    """Makes a list of the most frequent tokens; of equally frequent ones the smaller text first.

    Args:
      kind: `characters` (code points), `symbols` or `words` (both separated by U+0020).
      size: entries at most, the four special ones included; 0 keeps all.
      texts: the sentences, read once.

    Returns:
      The vocabulary.

    Raises:
      InputError: the text has no token, or the size leaves no room for one.
    """
    if 0 < size <= UNK + 1 or size < 0:
        raise InputError(f"size {size} leaves no room for {kind}; use {UNK + 2} or more, or 0: all")
    counts = Counter[str]()
    for text in texts:
        counts.update(_split(kind, text))
    if not counts:
        raise InputError(f"the text has no {kind} to build a vocabulary from")
    ranked = sorted(counts, key=lambda token: (-counts[token], token))
    return TokenVocabulary(kind, ranked[: size - UNK - 1] if size else ranked)


def _split(kind: str, text: str) -> Iterable[str]:
    return text if kind == "characters" else split_words(text)


def split_words(text: str) -> list[str]:
    """Returns what U+0020 separates: the one rule of what a word or a symbol is.

    Other white space is part of a word, as it is for who numbers the words of gold alignments.
    """
    return [word for word in text.split(" ") if word]
