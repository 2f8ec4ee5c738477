"""Vocabularies of SentencePiece pieces, trained in memory.

Source: Kudo and Richardson 2018, "SentencePiece", arXiv 1808.06226; `unigram` is Kudo 2018
(arXiv 1804.10959), `bpe` Sennrich, Haddow and Birch 2016 (arXiv 1508.07909).
"""

import io
from collections.abc import Iterable, Iterator
from typing import Self

import sentencepiece

from bahdanau_jax.data.vocabulary import UNKNOWN_MARK, Vocabulary, digest, split_words
from bahdanau_jax.errors import InputError
from bahdanau_jax.special_ids import BOS, EOS, PAD, UNK

PIECE_KINDS = ("unigram", "bpe")
_SPACE = "▁"  # how pieces write a space

# SentencePiece drops a sentence with one of its reserved characters silently. It is shown others
# in their place, which Unicode keeps free for such uses inside a program.
_RESERVED, _STAND_INS = "\0\x1f▅", "\ufdd0\ufdd1\ufdd2"
_HIDE = str.maketrans(_RESERVED, _STAND_INS)
_SHOW = str.maketrans(_STAND_INS, _RESERVED)


class PieceVocabulary(Vocabulary):
    """A SentencePiece model; a character that its training text didn't have becomes UNK."""

    suffix = ".model"

    def __init__(self, model: bytes):
        self._model = model
        self._processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.size = self._processor.get_piece_size()
        self.fingerprint = digest(model)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of the pieces of `text`; no BOS, no EOS."""
        return self._processor.encode(text.translate(_HIDE))

    def words(self, text: str) -> list[str]:
        """Returns what spaces separate in `text`; SentencePiece takes its own mark for one."""
        return split_words(text.replace(_SPACE, " "))

    def word_lengths(self, ids: Iterable[int]) -> list[int]:
        """Returns how many of the pieces make up each word: one with a space before it begins."""
        lengths: list[int] = []
        for token in ids:
            if not lengths or self._processor.id_to_piece(int(token)).startswith(_SPACE):
                lengths.append(0)
            lengths[-1] += 1
        return lengths

    def _piece(self, token: int) -> str:
        return self._processor.id_to_piece(token).translate(_SHOW)

    def _join(self, ids: list[int]) -> str:
        return self._processor.decode(ids).translate(_SHOW)

    def _bytes(self) -> bytes:
        return self._model

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Reads what `save` wrote; raises ValueError if it isn't that."""
        try:
            vocabulary = cls(content)
        except RuntimeError as error:
            raise ValueError("it holds no SentencePiece model") from error
        processor = vocabulary._processor
        special = (processor.pad_id(), processor.bos_id(), processor.eos_id(), processor.unk_id())
        if vocabulary.size <= UNK or special != (PAD, BOS, EOS, UNK):
            raise ValueError(f"its special ids aren't {(PAD, BOS, EOS, UNK)}")
        return vocabulary


def build_pieces(kind: str, size: int, texts: Iterable[str]) -> PieceVocabulary:
    """Trains a SentencePiece model; the same text gives the same model.

    Args:
      kind: `unigram` or `bpe`.
      size: entries exactly, the four special ones included; every character gets one.
      texts: the sentences, read once.

    Returns:
      The vocabulary.

    Raises:
      InputError: the text is empty, or can't give `size` entries.
    """
    if size <= UNK + 1:
        raise InputError(f"{kind} needs a size, its number of entries, not {size}; 8000 is usual")
    reader = _Reader(texts)
    try:
        vocabulary = PieceVocabulary(_train(kind, size, reader))
    except RuntimeError as error:
        if reader.error is not None:
            raise reader.error from None
        if not reader.characters - {" "}:
            raise InputError("the text is empty: nothing to build a vocabulary from") from error
        # The least is one entry for each special id, for the space and for every character.
        smallest = UNK + 1 + len(reader.characters | {" "})
        if size < smallest:
            raise InputError(
                f"size {size} is too small for the {len(reader.characters)} different characters "
                f"of the text; use {smallest} or more"
            ) from error
        raise
    if vocabulary.size < size:
        raise InputError(
            f"size {size} is too large for this text; the largest that works is {vocabulary.size}"
        )
    return vocabulary


class _Reader:
    """Hands sentences to SentencePiece, which turns any exception into one of its own."""

    def __init__(self, texts: Iterable[str]):
        self._texts = texts
        self.characters: set[str] = set()
        self.error: Exception | None = None

    def __iter__(self) -> Iterator[str]:
        try:
            for text in self._texts:
                self.characters.update(text)
                yield text.translate(_HIDE)
        except Exception as error:
            self.error = error
            raise


def _train(kind: str, size: int, texts: Iterable[str]) -> bytes:
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        model_type=kind,
        vocab_size=size,
        hard_vocab_limit=False,  # a size that can't be reached then shows the one that can
        character_coverage=1.0,
        max_sentence_length=2**30,  # bytes, the most it takes; it drops a longer line silently
        normalization_rule_name="identity",  # the corpus has normalised the text
        pad_id=PAD,
        bos_id=BOS,
        eos_id=EOS,
        unk_id=UNK,
        # SentencePiece cuts the text apart wherever the name of a special piece stands in it, and
        # "<" would stay unknown in a text with "<s>". U+FFFF is no character: it stands nowhere.
        pad_piece="\uffffpad",
        bos_piece="\uffffbos",
        eos_piece="\uffffeos",
        unk_piece="\uffffunk",
        unk_surface=UNKNOWN_MARK,
        num_threads=16,  # fixed: the order of its sums, hence the model, depends on this number
        minloglevel=2,
    )
    return model.getvalue()
