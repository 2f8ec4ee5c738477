"""Files that gzip, xz or Zstandard packed, read as what was packed; told by how they begin."""

import gzip
import importlib
import io
import lzma
import zlib
from typing import Any, BinaryIO, cast

from bahdanau_jax.errors import InputError, flat

ENDINGS = (".gz", ".xz", ".zst")  # of names that may stand for the name without it
_GZIP, _XZ, _ZSTD = b"\x1f\x8b", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd"
# What reading a damaged file raises; a gzip file's wrong checksum is an OSError without a number.
DAMAGE = (EOFError, gzip.BadGzipFile, zlib.error, lzma.LZMAError)


def without_ending(name: str) -> str:
    """Returns a file's name without the ending that says how it is packed."""
    return next((name.removesuffix(end) for end in ENDINGS if name.endswith(end)), name)


def unpacked(stream: io.BufferedReader, name: str) -> BinaryIO:
    """Returns what is packed in a file, or the file itself where it isn't packed.

    Args:
      stream: at the file's beginning. What can be read only once, as a pipe, stays as it is.
      name: what a complaint calls it.

    Raises:
      InputError: no library for its kind is installed.
    """
    if not stream.seekable():
        return stream
    begin = stream.peek(6)[:6]
    if begin.startswith(_GZIP):
        return cast(BinaryIO, gzip.GzipFile(fileobj=stream))
    if begin == _XZ:
        return cast(BinaryIO, lzma.LZMAFile(stream))
    if begin.startswith(_ZSTD):
        return io.BufferedReader(_Zstandard(stream, _decompressor(name)))
    return stream


def damaged(name: str, lines: int, error: BaseException) -> InputError:
    """Returns the error that says that a packed file can't be read to its end.

    Args:
      name: of the file.
      lines: so many of its lines were read.
      error: one of `DAMAGE`.
    """
    return InputError(
        f"{name}, after line {lines:,}: packed text that is damaged or cut off ({flat(error)}); "
        "copy the file again"
    )


def _decompressor(name: str) -> Any:
    """Returns a function that makes a decompressor of one Zstandard frame."""
    for module, function in (
        ("compression.zstd", "ZstdDecompressor"),
        ("zstandard", "ZstdDecompressor"),
    ):
        try:
            made = getattr(importlib.import_module(module), function)
        except ImportError:
            continue
        return made if module == "compression.zstd" else lambda made=made: made().decompressobj()
    raise InputError(
        f"{name} is packed by Zstandard, which Python reads from 3.14 on; install the extra zstd "
        '(pip install "bahdanau_jax[zstd]"), or unpack it, as by unzstd'
    )


class _Zstandard(io.RawIOBase):
    """Frames of Zstandard, one after another; the package's own reader takes half a frame."""

    def __init__(self, stream: BinaryIO, decompressor: Any):
        self._stream, self._new = stream, decompressor
        self._begin()

    def _begin(self) -> None:
        self._frame, self._left, self._fed = self._new(), b"", False

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True: the beginning can be gone back to."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Goes back to the beginning, and nowhere else."""
        if offset or whence != io.SEEK_SET:
            raise io.UnsupportedOperation("only the beginning can be gone back to")
        self._stream.seek(0)
        self._begin()
        return 0

    def readinto(self, buffer: Any) -> int:
        """Fills a buffer; raises EOFError where a frame is damaged or cut off."""
        while not self._left:
            packed = b""
            if self._frame.eof:
                packed, self._frame, self._fed = self._frame.unused_data, self._new(), False
            packed = packed or self._stream.read(1 << 16)
            if not packed:
                if self._fed:
                    raise EOFError("a frame has no end")
                return 0
            self._fed = True
            try:
                self._left = self._frame.decompress(packed)
            except Exception as error:  # each library has an exception of its own
                raise EOFError(str(error)) from error
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count
