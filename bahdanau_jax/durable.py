"""Files that outlast a kill and a loss of power, and checksums that say whether they are whole.

A file is written under another name, confirmed by the disk, and renamed: readers, and a crash, see
the old content or the new. A directory that is complete gets a list of checksums, which is compared
before anything in it is read.
"""

import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bahdanau_jax.stored_files import open_regular, read_json

CHECKSUMS = "checksums.json"
CHECKSUM = "checksum"  # in a JSON file: of all else in it


def confirm(path: str | os.PathLike[str]) -> None:
    """Waits until the disk has a file's content, or the names in a directory.

    Args:
      path: of the file or the directory.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def confirm_tree(directory: Path) -> None:
    """Waits until the disk has every file and every name below a directory."""
    for path in directory.rglob("*"):
        confirm(path)
    confirm(directory)


def write_atomically(path: str | os.PathLike[str], content: str | bytes) -> None:
    """Writes a file such that readers, and a crash, see the old content or the new.

    Several processes of a machine may write the same file at once.

    Args:
      path: the file; its directory must exist.
      content: all of it; text is written as UTF-8.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with io.BufferedWriter(NamedFile(temporary, "wb")) as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        confirm(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


class ChecksumError(ValueError):
    """JSON isn't what was written."""


class NamedFile(io.FileIO):
    """A file whose failing writes say its name, as a full disk's don't."""

    def write(self, data: Any, /) -> int:
        """Writes bytes; returns how many of them were written."""
        try:
            return super().write(data)
        except OSError as error:
            error.filename = os.fspath(self.name)
            raise


def digest(content: bytes) -> str:
    """Returns the first 16 hexadecimal digits of the SHA-256 of `content`."""
    return hashlib.sha256(content).hexdigest()[:16]


def with_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what JSON has of some values, and a checksum that says later whether it still has.

    Args:
      values: by name, of types that JSON has, without infinities and NaN.
    """
    return {**values, CHECKSUM: digest(json.dumps(values, sort_keys=True).encode())}


def without_checksum(values: Any) -> Any:
    """Returns what `with_checksum` was given; what older versions wrote without one, as it is.

    Raises:
      ChecksumError: it isn't what was written.
    """
    if not isinstance(values, dict) or CHECKSUM not in values:
        return values
    rest = {name: value for name, value in values.items() if name != CHECKSUM}
    if with_checksum(rest) != values:
        raise ChecksumError("its checksum differs")
    return rest


def write_checksums(directory: Path) -> None:
    """Writes `checksums.json`, which names every file below `directory`, its size and SHA-256.

    The file appears whole or not at all.

    Args:
      directory: a directory in which nobody writes any more.
    """
    files = {
        file.relative_to(directory).as_posix(): {
            "bytes": file.stat().st_size,
            "sha256": file_digest(file),
        }
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }
    write_atomically(directory / CHECKSUMS, json.dumps({"files": files}, indent=1) + "\n")


def damage(directory: Path) -> str | None:
    """Says what is wrong with the files that `write_checksums` has seen.

    Args:
      directory: what was given to `write_checksums`.

    Returns:
      One phrase that names the first file which is missing, shorter, longer or changed; None if
      every byte is as it was.
    """
    try:
        files = read_json(directory / CHECKSUMS)["files"]
        expected = [(name, entry["bytes"], entry["sha256"]) for name, entry in files.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{CHECKSUMS} can't be read ({type(error).__name__})"
    if not expected:
        return f"{CHECKSUMS} names no file"
    for name, expected_bytes, expected_sha256 in expected:
        if name.startswith("/") or ".." in name.split("/"):
            return f"{CHECKSUMS} names {name!r}, which lies elsewhere"
        try:
            size = (directory / name).stat().st_size
            if size != expected_bytes:
                return f"{name} has {size} bytes where {expected_bytes} were written"
            if file_digest(directory / name) != expected_sha256:
                return f"{name} isn't what was written: its checksum differs"
        except OSError as error:
            return f"{name} can't be read ({error.strerror})"
    return None


def identity(directory: Path) -> str | None:
    """Returns a digest of what `write_checksums` wrote there; None if it can't be read."""
    try:
        return digest((directory / CHECKSUMS).read_bytes())
    except OSError:
        return None


def file_digest(file: Path) -> str:
    """Returns the SHA-256 of a regular file, in hexadecimal digits; raises OSError."""
    with open_regular(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
