"""Pairs of sentences as ids on disk, memory-mapped: made once, opened in no time.

A store is a directory of four `.npy` files: the ids of all sentences of a side, one after the
other, and the offsets at which each begins. Ids are `uint32` whatever the vocabulary's size,
because they are written while they come in, before anyone can know the largest. End marks are
not stored; they are added when arrays are filled, and every length below counts them.
"""

import contextlib
import errno
import itertools
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import numpy as np

from bahdanau_jax.durable import confirm
from bahdanau_jax.special_ids import EOS, PAD

_FILES = {
    "source_ids": np.dtype("<u4"),
    "source_offsets": np.dtype("<i8"),
    "target_ids": np.dtype("<u4"),
    "target_offsets": np.dtype("<i8"),
}
_CHUNK = 10_000  # pairs that are in memory while a store is written

Pair = tuple[Sequence[int], Sequence[int]]


class StoreError(Exception):
    """No usable store lies where one was looked for: build it again."""


class TokenStore:
    """Pairs of sentences as ids.

    Attributes:
      source_lengths: int32[N], tokens of each source sentence, end mark counted.
      target_lengths: int32[N], the same of the target side.
    """

    def __init__(
        self,
        source_ids: np.ndarray,
        source_offsets: np.ndarray,
        target_ids: np.ndarray,
        target_offsets: np.ndarray,
    ):
        self._source_ids, self._source_offsets = source_ids, source_offsets
        self._target_ids, self._target_offsets = target_ids, target_offsets
        self.source_lengths = (np.diff(source_offsets) + 1).astype(np.int32)
        self.target_lengths = (np.diff(target_offsets) + 1).astype(np.int32)

    def __len__(self) -> int:
        return len(self.source_lengths)

    def sources(self, pairs: np.ndarray, rows: int, width: int) -> np.ndarray:
        """Fills an array with source sentences, each followed by its end mark.

        Args:
          pairs: int[n], numbers of pairs, n <= rows; the rows after them are padding.
          rows: rows of the array.
          width: positions of a row, end mark counted.

        Returns:
          int32[rows, width], `PAD` after each end mark.

        Raises:
          ValueError: more pairs than rows, or a sentence that is longer than `width`.
        """
        lengths = self.source_lengths
        return _fill(self._source_ids, self._source_offsets, lengths, pairs, rows, width)

    def targets(self, pairs: np.ndarray, rows: int, width: int) -> np.ndarray:
        """Fills an array with target sentences, as `sources` does with source sentences."""
        lengths = self.target_lengths
        return _fill(self._target_ids, self._target_offsets, lengths, pairs, rows, width)

    @classmethod
    def from_pairs(cls, pairs: Iterable[Pair]) -> Self:
        """Makes a store in memory, for a handful of sentences that no file needs to hold.

        Args:
          pairs: source and target ids of each pair, without end marks; either may be empty.

        Returns:
          The store.

        Raises:
          ValueError: a sentence contains the padding id.
        """
        sides = list(zip(*pairs, strict=True)) or [(), ()]
        arrays = []
        for side in sides:
            ids, lengths = _flatten(side)
            arrays += [ids, np.concatenate([[0], np.cumsum(lengths)])]
        return cls(*arrays)


def open(directory: str | Path) -> TokenStore:
    """Opens a store that `build` wrote; reads the offsets, leaves the ids on disk.

    Args:
      directory: where it lies.

    Returns:
      The store.

    Raises:
      StoreError: nothing lies there, a file is missing or truncated, or sizes disagree.
    """
    arrays = [_load(Path(directory) / f"{name}.npy", dtype) for name, dtype in _FILES.items()]
    source_ids, source_offsets, target_ids, target_offsets = arrays
    for ids, offsets in ((source_ids, source_offsets), (target_ids, target_offsets)):
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(ids):
            raise StoreError(f"damaged token store {directory}: offsets and ids disagree")
    if len(source_offsets) != len(target_offsets):
        raise StoreError(f"damaged token store {directory}: its two sides differ in number")
    store = TokenStore(*arrays)
    if len(store) and min(store.source_lengths.min(), store.target_lengths.min()) < 1:
        raise StoreError(f"damaged token store {directory}: offsets run backwards")
    return store


def build(directory: str | Path, pairs: Iterable[Pair]) -> TokenStore:
    """Writes a store and opens it.

    The files are written beside the directory and renamed into place when they are complete, so
    that nobody ever opens half a store. Where two processes build the same one at once, the
    first to finish is kept. A damaged store that lies there is replaced.

    Args:
      directory: where to put it; its parents are made. The name should hold a fingerprint of
        all that the pairs depend on, because a good store that is there already is kept.
      pairs: source and target ids of each pair, without end marks; read once, a chunk at a time.

    Returns:
      The store.

    Raises:
      ValueError: a sentence contains the padding id.
    """
    directory = Path(directory)
    directory.parent.mkdir(parents=True, exist_ok=True)
    unfinished = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}")
    unfinished.mkdir()
    try:
        _write(unfinished, pairs)
        return _publish(unfinished, directory)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _fill(
    ids: np.ndarray,
    offsets: np.ndarray,
    lengths: np.ndarray,
    pairs: np.ndarray,
    rows: int,
    width: int,
) -> np.ndarray:
    pairs = np.asarray(pairs, np.int64)
    sizes = lengths[pairs].astype(np.int64) - 1
    if len(pairs) > rows or (len(pairs) and sizes.max() >= width):
        raise ValueError(f"the pairs don't fit into an array of {rows} rows, {width} positions")
    filled = np.full((rows, width), PAD, np.int32)
    row = np.repeat(np.arange(len(pairs)), sizes)
    column = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    filled[row, column] = ids[offsets[pairs][row] + column]
    filled[np.arange(len(pairs)), sizes] = EOS
    return filled


def _flatten(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of all sentences, uint32[sum of lengths], and their int64 lengths."""
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    flat = itertools.chain.from_iterable(sentences)
    ids = np.fromiter(flat, np.uint32, int(lengths.sum()))
    if (ids == PAD).any():
        raise ValueError(f"a sentence contains the padding id {PAD}")
    return ids, lengths


def _load(path: Path, dtype: np.dtype) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
        size = path.stat().st_size
    except FileNotFoundError as error:  # perhaps since a moment ago: see _publish
        raise StoreError(f"no complete token store: {path} is missing") from error
    except Exception as error:  # NumPy meets a damaged header with any of several exceptions
        raise StoreError(f"damaged token store: {path} can't be read ({error})") from error
    if not isinstance(array, np.memmap) or array.ndim != 1 or array.dtype != dtype:
        raise StoreError(f"damaged token store: {path} holds something else")
    if array.offset + array.nbytes != size:
        raise StoreError(f"damaged token store: {path} has the wrong size")
    return np.asarray(array)


def _write(directory: Path, pairs: Iterable[Pair]) -> None:
    """Writes the four files of a store, and has the disk confirm them."""
    pairs = iter(pairs)
    with contextlib.ExitStack() as stack:
        writers = {
            name: stack.enter_context(contextlib.closing(_ArrayWriter(directory, name, dtype)))
            for name, dtype in _FILES.items()
        }
        for side in ("source", "target"):
            writers[f"{side}_offsets"].append(np.zeros(1, np.int64))
        while chunk := list(itertools.islice(pairs, _CHUNK)):
            for side, sentences in zip(("source", "target"), zip(*chunk, strict=True), strict=True):
                ids, lengths = _flatten(sentences)
                begin = writers[f"{side}_ids"].length
                writers[f"{side}_ids"].append(ids)
                writers[f"{side}_offsets"].append(begin + np.cumsum(lengths))
    confirm(directory)


class _ArrayWriter:
    """A one-dimensional `.npy` file that grows.

    NumPy leaves room in the header for the largest length, so it can be rewritten in place.
    """

    def __init__(self, directory: Path, name: str, dtype: np.dtype):
        self._file = (directory / f"{name}.npy").open("wb")
        self._dtype = dtype
        self.length = 0
        self._write_header()

    def _write_header(self) -> None:
        description = np.lib.format.dtype_to_descr(self._dtype)
        header = {"descr": description, "fortran_order": False, "shape": (self.length,)}
        np.lib.format.write_array_header_1_0(self._file, header)

    def append(self, values: np.ndarray) -> None:
        self._file.write(values.astype(self._dtype).tobytes())
        self.length += len(values)

    def close(self) -> None:
        with self._file:
            self._file.seek(0)
            self._write_header()
            self._file.flush()
            os.fsync(self._file.fileno())


def _publish(unfinished: Path, directory: Path) -> TokenStore:
    """Renames a complete store into place, or opens the good one that is there."""
    # Opened before it is renamed: from then on another process may move it away again.
    store = open(unfinished)
    while True:
        try:
            unfinished.rename(directory)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            confirm(directory.parent)
            return store
        try:
            return open(directory)
        except StoreError:
            damaged = unfinished.with_name(f"{unfinished.name}.damaged")
            with contextlib.suppress(FileNotFoundError):
                directory.rename(damaged)
            shutil.rmtree(damaged, ignore_errors=True)
