"""Checksums of a directory's files: written when it's complete, compared before it's read."""

import hashlib
import json
import os
from pathlib import Path

NAME = "checksums.json"


def write(directory: Path) -> None:
    """Writes `checksums.json`, which names every file below `directory`, its size and SHA-256.

    The file appears whole or not at all.

    Args:
      directory: a directory in which nobody writes any more.
    """
    files = {
        file.relative_to(directory).as_posix(): {
            "bytes": file.stat().st_size,
            "sha256": _sha256(file),
        }
        for file in sorted(directory.rglob("*"))
        if file.is_file()
    }
    temporary = directory / f"{NAME}.writing"
    temporary.write_text(json.dumps({"files": files}, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, directory / NAME)


def damage(directory: Path) -> str | None:
    """Says what is wrong with the files that `write` has seen.

    Args:
      directory: what was given to `write`.

    Returns:
      One phrase that names the first file which is missing, shorter, longer or changed; None if
      every byte is as it was.
    """
    try:
        files = json.loads((directory / NAME).read_text(encoding="utf-8"))["files"]
        expected = [(name, entry["bytes"], entry["sha256"]) for name, entry in files.items()]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{NAME} can't be read ({type(error).__name__})"
    if not expected:
        return f"{NAME} names no file"
    for name, size, digest in expected:
        try:
            found = (directory / name).stat().st_size
            if found != size:
                return f"{name} has {found} bytes where {size} were written"
            if _sha256(directory / name) != digest:
                return f"{name} isn't what was written: its checksum differs"
        except OSError as error:
            return f"{name} can't be read ({error.strerror})"
    return None


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
