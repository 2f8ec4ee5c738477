"""The files of a workdir, which a stranger may have written: read as they are, never obeyed.

A link could lead a write out of the workdir, a FIFO or a device would keep a reader waiting, and
JSON can be nested or spelt such that it can't be written again.
"""

import io
import json
import os
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any

from bahdanau_jax.errors import InputError


def refuse_strange_files(directory: str | os.PathLike[str], without: Collection[str] = ()) -> None:
    """Checks that everything below a directory is a file or directory that lies there.

    Args:
      directory: a workdir; may be absent, or itself a link.
      without: names in it that are passed over, as those of a sweep's cells, which may be links.

    Raises:
      InputError: a link leads out of it, or something is a FIFO, a socket or a device.
    """
    root = os.path.realpath(directory)
    left = [root]
    while left:
        try:
            entries = list(os.scandir(left.pop()))
        except OSError:
            continue  # absent, gone since it was listed, or said by whoever opens it
        for entry in entries:
            if entry.name in without and os.path.dirname(entry.path) == root:
                continue
            if entry.is_dir(follow_symlinks=False):
                left.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                continue
            elif entry.is_symlink():
                if not Path(os.path.realpath(entry.path)).is_relative_to(root):
                    raise InputError(
                        f"{entry.path}: a link that leads out of the workdir isn't followed; put "
                        "there what it leads to, or remove it"
                    )
            elif os.path.lexists(entry.path):
                raise InputError(f"{entry.path}: neither a file nor a directory; remove it")


def open_regular(
    path: str | os.PathLike[str], flags: int = os.O_RDONLY
) -> io.BufferedReader | io.BufferedRandom:
    """Opens a file, and nothing else that a name can stand for; never waits for a writer.

    Args:
      path: of the file.
      flags: of `os.open`; with O_NOFOLLOW, a link is no file.

    Raises:
      OSError: it can't be opened, or is no regular file.
    """
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(None, "no regular file", os.fspath(path))
        file = os.fdopen(descriptor, "rb" if flags & os.O_ACCMODE == os.O_RDONLY else "r+b")
        assert isinstance(file, io.BufferedReader | io.BufferedRandom)
        return file
    except BaseException:
        os.close(descriptor)
        raise


def read_text(path: str | os.PathLike[str]) -> str:
    """Returns the text of a regular file; raises OSError, or ValueError if it isn't UTF-8."""
    with open_regular(path) as stream:
        return stream.read().decode()


def read_json(path: str | os.PathLike[str]) -> Any:
    """Returns the value in a regular file; raises OSError, or ValueError as `parse_json`."""
    return parse_json(read_text(path))


def parse_json(text: str | bytes) -> Any:
    """Returns the value of a JSON text that can be written again.

    Raises:
      ValueError: it is no JSON, is nested too deeply, or holds half a character (a surrogate).
    """
    try:
        value = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    escape = b"\\u" if isinstance(text, bytes) else "\\u"
    if escape in text:  # pyright: ignore[reportOperatorIssue]
        json.dumps(value, ensure_ascii=False).encode()
    return value
