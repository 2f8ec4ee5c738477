"""Lines of text from a file or a pipe, as they come; lines to a file that appears whole."""

import contextlib
import io
import itertools
import os
import queue
import sys
import threading
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

from bahdanau_jax.durable import NamedFile
from bahdanau_jax.errors import InputError
from bahdanau_jax.packed import DAMAGE, damaged, unpacked
from bahdanau_jax.terminal import counted

_ONE_COLUMN = str.maketrans(dict.fromkeys("\t\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029", " "))
UTF_16 = "what looks like UTF-16; save it as UTF-8, as by iconv -f UTF-16 -t UTF-8"
# How files begin that are given in place of text. None of it begins a sentence.
KINDS = {
    b"\x1f\x8b": "what looks like gzip; unpack it, as by gunzip",
    b"BZh91AY&SY": "what looks like bzip2; unpack it, as by bunzip2",
    b"\xfd7zXZ\0": "what looks like xz; unpack it, as by unxz",
    b"\x28\xb5\x2f\xfd": "what looks like Zstandard; unpack it, as by unzstd",
    b"PK\x03\x04": "what looks like Excel or ZIP; save it as text (tabs, UTF-8), or unpack it",
    b"\xd0\xcf\x11\xe0": "what looks like old Excel or Word; save it as text (tabs, UTF-8)",
    b"\xff\xfe": UTF_16,
    b"\xfe\xff": UTF_16,
}
PATIENCE = 0.05  # seconds without a new line after which those that came are handed on


def one_column(text: str) -> str:
    """Returns text with spaces for what some program takes for the end of a line or a column."""
    return text.translate(_ONE_COLUMN)


@contextlib.contextmanager
def open_input(path: str | None, flag: str = "--input") -> Iterator[BinaryIO]:
    """Opens a file of lines, or standard input.

    Args:
      path: of a file, packed or not, which is checked whole before it is handed on; None: standard
        input.
      flag: what a complaint calls it.

    Raises:
      InputError: it can't be read, or isn't UTF-8.
    """
    if path is None:
        # Not `sys.stdin.buffer`: the thread that reads it may outlive everything else, and Python
        # can't end while another thread holds that object's lock.
        yield open(os.dup(sys.stdin.fileno()), "rb")  # noqa: SIM115
        return
    try:
        with open(path, "rb") as file:
            stream = unpacked(file, path)
            if stream.seekable():
                for _ in read_lines(stream, path):
                    pass
                stream.seek(0)
            yield stream
    except OSError as error:
        if error.filename != path:
            raise
        raise InputError(f"{flag}: can't read {path} ({error.strerror})") from error


@contextlib.contextmanager
def open_output(path: str | None) -> Iterator[TextIO]:
    """Opens a file for lines, or standard output, as UTF-8.

    Args:
      path: of the file, which replaces what was there when the context ends well: until then
        lines go to the same name with `.partial` behind it. A link stays, and what it leads to is
        replaced; a pipe or a device is written to as it is. None: standard output.

    Raises:
      InputError: it can't be written.
    """
    if path is None:
        reconfigure = getattr(sys.stdout, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8")
        yield sys.stdout
        return
    if not path:
        raise InputError("can't write to a file without a name; name one")
    whole = os.path.isfile(path) or not os.path.exists(path)
    target = Path(os.path.realpath(path) if whole else path)
    written = target.with_name(target.name + ".partial") if whole else target
    try:
        stream = io.TextIOWrapper(
            io.BufferedWriter(NamedFile(written, "w")), encoding="utf-8", newline=""
        )
    except OSError as error:
        what = f"{written}, which becomes {path} once it is whole" if whole else path
        raise InputError(f"can't write {what} ({error.strerror}); name another file") from error
    with stream:
        yield stream
    if whole:
        os.replace(written, target)


def read_lines(source: Path | BinaryIO, name: str = "input") -> Generator[str, None, None]:
    """Yields the lines of UTF-8 text, divided at line feeds and nowhere else.

    A byte-order mark and carriage returns before the ends are no text.

    Args:
      source: a file, packed or not, which may have no NUL either, as files that aren't text do; or
        a stream.
      name: what a complaint calls a stream; a file is called by its path.

    Raises:
      InputError: the file can't be read, or a line isn't UTF-8 or has a NUL; names its number.
    """
    if isinstance(source, Path):
        try:
            with source.open("rb") as file:
                stream = unpacked(file, str(source))
                yield from _decode(stream, str(source), refuse_nul=True)
        except OSError as error:
            raise InputError(f"can't read {source} ({error.strerror})") from error
    else:
        yield from _decode(source, name, refuse_nul=False)


def _kind_of_file(line: bytes) -> str | None:
    """Returns what a file looks like that begins so, and what to do; None if it may be text."""
    for begin, kind in KINDS.items():
        if line.startswith(begin):
            return kind
    # Text of most scripts has a NUL in every other byte then.
    if len(line) >= 4 and (not any(line[0:20:2]) or not any(line[1:20:2])):
        return UTF_16
    return None


def _whole(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yields lines; raises InputError where they are packed and damaged."""
    number = 0
    try:
        for line in lines:
            yield line
            number += 1
    except DAMAGE as error:
        raise damaged(name, number, error) from error


def _decode(lines: Iterable[bytes], name: str, *, refuse_nul: bool) -> Iterator[str]:
    for number, line in enumerate(_whole(lines, name), 1):
        if number == 1 and (kind := _kind_of_file(line)):
            raise InputError(f"{name}: no text, but {kind}")
        if refuse_nul and b"\0" in line:
            raise InputError(f"{name}, line {number}: a NUL byte; save it as UTF-8 text")
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name}, line {number}: not UTF-8 (byte {error.start + 1}); convert the text to "
                "UTF-8"
            ) from error
        yield text.rstrip("\r\n")


def read_pairs(source: Path, target: Path) -> Iterator[tuple[str, str]]:
    """Yields the n-th lines of two files; raises InputError if their numbers of lines differ.

    Files are counted before the first pair; what can be read only once, as a pipe, shows at its end
    that it is too short.
    """
    if source.is_file() and target.is_file():
        counts = [count_lines(path) for path in (source, target)]
        if counts[0] != counts[1]:
            raise InputError(
                f"{source} has {counted(counts[0], 'line')}, but {target} has {counts[1]:,}; "
                "line n of one must translate line n of the other"
            )
    # Without names: an error would keep what has one, and with it the open files.
    for number, (first, second) in enumerate(
        itertools.zip_longest(read_lines(source), read_lines(target))
    ):
        if first is None or second is None:
            short, other = (source, target) if first is None else (target, source)
            raise InputError(
                f"{short} has {counted(number, 'line')}, but {other} has more; "
                "line n of one must translate line n of the other"
            )
        yield first, second


def count_lines(path: Path) -> int:
    """Counts a file's lines, packed or not, the last one too if it has no end.

    Raises:
      InputError: the file can't be read.
    """
    count, last = 0, b"\n"
    try:
        with path.open("rb") as file:
            stream = unpacked(file, str(path))
            while block := stream.read(1 << 16):
                count += block.count(b"\n")
                last = block[-1:]
    except DAMAGE as error:
        raise damaged(str(path), count, error) from error
    except OSError as error:
        raise InputError(f"can't read {path} ({error.strerror})") from error
    return count + (last != b"\n")


def chunks(lines: Iterator[str], first: int, size: int) -> Iterator[list[str]]:
    """Groups lines, without keeping back what came when no more comes for a while.

    A thread reads ahead, by one chunk at most. An error of `lines` is raised after the lines
    before it have been yielded.

    Args:
      lines: what to group.
      first: lines of the first group, at most; each further one may be twice as large.
      size: lines of a group, at most.

    Yields:
      At least one line.
    """
    read: queue.Queue[str | BaseException | None] = queue.Queue(maxsize=size)

    def fill() -> None:
        try:
            for line in lines:
                read.put(line)
            read.put(None)
        except BaseException as error:
            read.put(error)

    threading.Thread(target=fill, daemon=True, name="lines").start()
    chunk: list[str] = []
    limit = min(first, size)
    while True:
        try:
            line = read.get(timeout=PATIENCE if chunk else None)
        except queue.Empty:
            yield chunk
            chunk = []
            continue
        if isinstance(line, str):
            chunk.append(line)
        if chunk and (len(chunk) >= limit or not isinstance(line, str)):
            yield chunk
            chunk, limit = [], min(2 * limit, size)
        if line is None:
            return
        if isinstance(line, BaseException):
            raise line


class InOrder:
    """Writes texts in the order of their numbers, each as soon as those before it are there.

    Attributes:
      written: texts that have been written.
    """

    def __init__(self, streams: Sequence[TextIO], texts: list[tuple[str, ...] | None]):
        """Writes what is known from the beginning.

        Args:
          streams: where the parts of a text go.
          texts: a part for each stream, at least; None for what comes later.
        """
        self._streams, self._texts = streams, texts
        self.written = 0
        self._write()

    def put(self, number: int, text: tuple[str, ...]) -> None:
        """Takes a text that was None."""
        self._texts[number] = text
        if number == self.written:
            self._write()

    def _write(self) -> None:
        while self.written < len(self._texts):
            text = self._texts[self.written]
            if text is None:
                break
            for stream, part in zip(self._streams, text, strict=False):
                stream.write(part)
            self.written += 1
        for stream in self._streams:
            stream.flush()
