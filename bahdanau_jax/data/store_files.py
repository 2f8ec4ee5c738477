"""The files of a token store: four arrays, and a record that says whether they are whole.

Each array is a `.npy` file: the ids of all sentences of a side, one after the other, and the
offsets at which each begins. `store.json` has the name that the store was made under, and the size
and the checksum of every array. All of it is compared before anything is read, so the checksum runs
at the speed of memory: a weighted sum for each page of a file, and the CRC-32 of these sums.
"""

import contextlib
import io
import itertools
import json
import mmap
import os
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bahdanau_jax.durable import confirm, write_atomically
from bahdanau_jax.special_ids import PAD
from bahdanau_jax.stored_files import open_regular, parse_json

FILES = {
    "source_ids": np.dtype("<u4"),
    "source_offsets": np.dtype("<i8"),
    "target_ids": np.dtype("<u4"),
    "target_offsets": np.dtype("<i8"),
}
RECORD = "store.json"
_CHUNK = 10_000  # pairs that are in memory while a store is written
_PAGE = 512  # words of 64 bits
# Odd, so that no change of a word is lost, and different, so that no exchange of two is.
_WEIGHTS = np.cumprod(np.full(_PAGE, 0x9E3779B97F4A7C15, np.uint64))

Pair = tuple[Sequence[int], Sequence[int]]


class StoreError(Exception):
    """No usable store lies where one was looked for: build it again."""


def write(directory: Path, name: str, pairs: Iterable[Pair]) -> None:
    """Writes the files of a store, and has the disk confirm them.

    Args:
      directory: where to; it exists and is empty.
      name: what the store will be called, noted in the record.
      pairs: source and target ids of each pair, without end marks; read once, a chunk at a time.

    Raises:
      ValueError: a sentence contains the padding id.
    """
    pairs = iter(pairs)
    with contextlib.ExitStack() as stack:
        writers = {
            file: stack.enter_context(contextlib.closing(_ArrayWriter(directory, file, dtype)))
            for file, dtype in FILES.items()
        }
        for side in ("source", "target"):
            writers[f"{side}_offsets"].append(np.zeros(1, np.int64))
        while chunk := list(itertools.islice(pairs, _CHUNK)):
            for side, sentences in zip(("source", "target"), zip(*chunk, strict=True), strict=True):
                ids, lengths = flatten(sentences)
                begin = writers[f"{side}_ids"].length
                writers[f"{side}_ids"].append(ids)
                writers[f"{side}_offsets"].append(begin + np.cumsum(lengths))
    write_record(directory, name)
    confirm(directory)


def write_record(directory: Path, name: str) -> None:
    """Notes what the arrays in a directory are, and what the store is called."""
    files = {}
    for file in FILES:
        with _open(directory / f"{file}.npy") as stream:
            files[file] = _state(stream)
    content = json.dumps({"name": name, "files": files}, indent=1)
    write_atomically(directory / RECORD, content + "\n")


def read(directory: Path, name: str) -> list[np.ndarray]:
    """Compares a store with its record, and maps its arrays into memory.

    Args:
      directory: where it lies.
      name: what it was called when it was written.

    Returns:
      The arrays, in the order of `FILES`, each of one dimension.

    Raises:
      StoreError: a file is missing, no regular file, or not what was written under this name.
    """
    record = _read_record(directory)
    if record.get("name") != name:
        raise StoreError(f"{RECORD} is that of another store")
    files = record.get("files")
    return [
        _read_array(directory / f"{file}.npy", dtype, isinstance(files, dict) and files.get(file))
        for file, dtype in FILES.items()
    ]


def flatten(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ids of all sentences, uint32[sum of lengths], and their int64 lengths.

    Raises:
      ValueError: a sentence contains the padding id.
    """
    lengths = np.fromiter(map(len, sentences), np.int64, len(sentences))
    flat = itertools.chain.from_iterable(sentences)
    ids = np.fromiter(flat, np.uint32, int(lengths.sum()))
    if (ids == PAD).any():
        raise ValueError(f"a sentence contains the padding id {PAD}")
    return ids, lengths


def _open(path: Path) -> io.BufferedReader | io.BufferedRandom:
    return open_regular(path, os.O_RDONLY | os.O_NOFOLLOW)


def _read_record(directory: Path) -> dict[str, Any]:
    try:
        with _open(directory / RECORD) as stream:
            record = parse_json(stream.read())
    except OSError as error:
        raise StoreError(f"{RECORD} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise StoreError(f"{RECORD} holds something else") from error
    if not isinstance(record, dict):
        raise StoreError(f"{RECORD} holds something else")
    return record


def _read_array(path: Path, dtype: np.dtype, recorded: object) -> np.ndarray:
    """Maps an array into memory, the very file whose checksum was compared."""
    try:
        with _open(path) as stream:
            state = _state(stream)
            if state != recorded:
                raise StoreError(f"{path.name} isn't what was written")
            np.lib.format.read_magic(stream)
            shape, _, written = np.lib.format.read_array_header_1_0(stream)
            if len(shape) != 1 or written != dtype:
                raise StoreError(f"{path.name} holds something else")
            if stream.tell() + shape[0] * dtype.itemsize != state["bytes"]:
                raise StoreError(f"{path.name} has the wrong size")
            return np.asarray(np.memmap(stream, dtype, "r", stream.tell(), shape))
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(f"{path.name} can't be read: {error.strerror}") from error
    except Exception as error:  # NumPy meets a damaged header with any of several exceptions
        raise StoreError(f"{path.name} can't be read: {error}") from error


def _state(stream: io.BufferedReader | io.BufferedRandom) -> dict[str, Any]:
    """Returns a file's size in bytes and its checksum."""
    size = os.fstat(stream.fileno()).st_size
    if not size:
        return {"bytes": 0, "checksum": _checksum(b"")}
    # Mapped for this alone, so that the pages don't count as this process's memory afterwards.
    with mmap.mmap(stream.fileno(), size, access=mmap.ACCESS_READ) as content:
        return {"bytes": size, "checksum": _checksum(content)}


def _checksum(content: bytes | mmap.mmap) -> str:
    """Returns 8 hexadecimal digits that stand for the bytes of a file.

    Reading 780 MB so takes 0.1 s where they are in memory, as long as opening the store; their
    CRC-32 takes 0.9 s.
    """
    pages = len(content) // (8 * _PAGE)
    words = np.frombuffer(content, "<u8", pages * _PAGE).reshape(pages, _PAGE)
    sums = np.einsum("ij,j->i", words, _WEIGHTS)  # modulo 2^64
    return f"{zlib.crc32(content[pages * 8 * _PAGE :], zlib.crc32(sums)):08x}"


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
