"""Pairs of sentences as ids on disk, memory-mapped: made once, opened in no time.

A store is a directory of files (`store_files.py`). Ids are `uint32` whatever the vocabulary's size.
End marks are not stored; they are added when arrays are filled, and every length below counts them.

What lies in a cache can be made again. So a store is compared with its checksums when it is opened,
and every id with its vocabulary when it is read; a damaged one is replaced, and never obeyed.
"""

import contextlib
import errno
import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

import numpy as np

from bahdanau_jax.data import store_files
from bahdanau_jax.data.store_files import Pair, StoreError
from bahdanau_jax.durable import confirm
from bahdanau_jax.errors import RunError
from bahdanau_jax.special_ids import EOS, PAD, UNK

__all__ = ["StoreError", "TokenStore", "build", "open", "remove", "remove_unfinished"]

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{32}(\.damaged)?")


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
        directory: Path | None = None,
        sizes: tuple[int, int] | None = None,
    ):
        self._source_ids, self._source_offsets = source_ids, source_offsets
        self._target_ids, self._target_offsets = target_ids, target_offsets
        self._directory, self._sizes = directory, sizes
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
          RunError: an id is outside the vocabulary, so the files changed since they were opened.
        """
        arrays = (self._source_ids, self._source_offsets, self.source_lengths)
        return self._fill(*arrays, self._sizes and self._sizes[0], pairs, rows, width)

    def targets(self, pairs: np.ndarray, rows: int, width: int) -> np.ndarray:
        """Fills an array with target sentences, as `sources` does with source sentences."""
        arrays = (self._target_ids, self._target_offsets, self.target_lengths)
        return self._fill(*arrays, self._sizes and self._sizes[1], pairs, rows, width)

    def _fill(
        self,
        ids: np.ndarray,
        offsets: np.ndarray,
        lengths: np.ndarray,
        size: int | None,
        pairs: np.ndarray,
        rows: int,
        width: int,
    ) -> np.ndarray:
        pairs = np.asarray(pairs, np.int64)
        counts = lengths[pairs].astype(np.int64) - 1
        if len(pairs) > rows or (len(pairs) and counts.max() >= width):
            raise ValueError(f"the pairs don't fit into an array of {rows} rows, {width} positions")
        row = np.repeat(np.arange(len(pairs)), counts)
        column = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        places = offsets[pairs][row] + column
        if not _within(places, 0, len(ids)):
            raise self._damaged()
        tokens = ids[places]
        if size is not None and not _within(tokens, UNK, size):
            raise self._damaged()
        filled = np.full((rows, width), PAD, np.int32)
        filled[row, column] = tokens
        filled[np.arange(len(pairs)), counts] = EOS
        return filled

    def _damaged(self) -> RunError:
        """Returns what to say of files that changed since they were compared with their record."""
        # Without its record the store isn't opened again, even if its checksums fit.
        if self._directory is not None:
            with contextlib.suppress(OSError):
                (self._directory / store_files.RECORD).unlink()
        return RunError(
            f"{self._directory}: the training text as ids changed while it was read; what is saved "
            "of the run is kept; give the same command again, which makes the ids anew"
        )

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
            ids, lengths = store_files.flatten(side)
            arrays += [ids, np.concatenate([[0], np.cumsum(lengths)])]
        return cls(*arrays)


def open(directory: str | Path, sizes: tuple[int, int]) -> TokenStore:
    """Opens a store that `build` wrote; reads all of it once, and leaves the ids on disk.

    Args:
      directory: where it lies.
      sizes: of the source's and the target's vocabulary; ids are below.

    Returns:
      The store.

    Raises:
      StoreError: nothing lies there, or not what was written there.
    """
    return _open(Path(directory), Path(directory), sizes)


def build(directory: str | Path, pairs: Iterable[Pair], sizes: tuple[int, int]) -> TokenStore:
    """Writes a store and opens it.

    The files are written beside the directory and renamed into place when they are complete, so
    that nobody ever opens half a store. Where two processes build the same one at once, the
    first to finish is kept. A damaged store that lies there, or anything else, is replaced.

    Args:
      directory: where to put it; its parents are made. The name should hold a fingerprint of
        all that the pairs depend on, because a good store that is there already is kept.
      pairs: source and target ids of each pair, without end marks; read once, a chunk at a time.
      sizes: of the source's and the target's vocabulary; ids are below.

    Returns:
      The store.

    Raises:
      ValueError: a sentence contains the padding id.
    """
    directory = Path(directory)
    if not directory.parent.is_dir():
        remove(directory.parent)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with _unfinished(directory) as unfinished:
        store_files.write(unfinished, directory.name, pairs)
        return _publish(unfinished, directory, sizes)


def remove_unfinished(directory: Path) -> None:
    """Removes what was left by builders that were killed, and nothing of those that work.

    Args:
      directory: the one in which stores lie; may be absent.
    """
    try:
        names = os.listdir(directory)
    except OSError:
        return
    for name in filter(_UNFINISHED.fullmatch, names):
        with contextlib.suppress(OSError), _locked(directory / name):
            remove(directory / name)


def remove(path: Path) -> None:
    """Removes a file or a directory, or a link and not what it leads to; it may be absent."""
    with contextlib.suppress(FileNotFoundError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()


def _open(place: Path, directory: Path, sizes: tuple[int, int]) -> TokenStore:
    """Opens the store of a directory, where it lies now."""
    arrays = store_files.read(place, directory.name)
    source_ids, source_offsets, target_ids, target_offsets = arrays
    for ids, offsets in ((source_ids, source_offsets), (target_ids, target_offsets)):
        if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(ids):
            raise StoreError("offsets and ids disagree")
    if len(source_offsets) != len(target_offsets):
        raise StoreError("its two sides differ in number")
    store = TokenStore(*arrays, directory=directory, sizes=sizes)
    if len(store) and min(store.source_lengths.min(), store.target_lengths.min()) < 1:
        raise StoreError("offsets run backwards")
    return store


@contextlib.contextmanager
def _unfinished(directory: Path) -> Iterator[Path]:
    """Makes a directory beside another, which is removed at the end unless it was renamed."""
    while True:
        unfinished = directory.with_name(f".{directory.name}.{uuid.uuid4().hex}")
        unfinished.mkdir()
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(_locked(unfinished, wait=True))
            except FileNotFoundError:  # removed before it was locked, as one of a killed builder
                continue
            except OSError:  # a file system without locks, on which nobody removes it either
                pass
            try:
                yield unfinished
            finally:
                shutil.rmtree(unfinished, ignore_errors=True)
            return


@contextlib.contextmanager
def _locked(directory: Path, wait: bool = False) -> Iterator[None]:
    """Holds the lock of a directory, which the kernel takes back when the process ends.

    Raises:
      FileNotFoundError: it was removed before it could be locked.
      OSError: another process holds the lock, or there are no locks.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        if os.stat(directory).st_ino != os.fstat(descriptor).st_ino:
            raise FileNotFoundError(errno.ENOENT, "removed", directory)
        yield
    finally:
        os.close(descriptor)


def _within(values: np.ndarray, low: int, high: int) -> bool:
    """Returns whether every one of `values` is at least `low` and below `high`."""
    return not len(values) or bool(low <= values.min() and values.max() < high)


def _publish(unfinished: Path, directory: Path, sizes: tuple[int, int]) -> TokenStore:
    """Renames a complete store into place, or opens the good one that is there."""
    # Opened before it is renamed: from then on another process may move it away again.
    store = _open(unfinished, directory, sizes)
    while True:
        try:
            unfinished.rename(directory)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            confirm(directory.parent)
            return store
        try:
            return open(directory, sizes)
        except StoreError:
            damaged = unfinished.with_name(f"{unfinished.name}.damaged")
            with contextlib.suppress(FileNotFoundError):
                directory.rename(damaged)
            remove(damaged)
