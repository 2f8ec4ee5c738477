"""Waiting until the disk holds what was written, so that it outlasts a loss of power."""

import os
from pathlib import Path


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
