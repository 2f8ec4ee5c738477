"""Ways in which a file or a directory is damaged; `other` is what another run has in its place."""

import os
import shutil
from pathlib import Path


def files_in(path: Path) -> list[Path]:
    """Returns the files below a directory, or the file itself."""
    return [file for file in sorted(path.rglob("*")) if file.is_file()] if path.is_dir() else [path]


def truncate(path: Path, other: Path) -> None:
    for file in files_in(path):
        os.truncate(file, file.stat().st_size // 2)


def zero(path: Path, other: Path) -> None:
    for file in files_in(path):
        file.write_bytes(bytes(file.stat().st_size))


def delete(path: Path, other: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def directory(path: Path, other: Path) -> None:
    delete(path, other)
    (path / "inside").mkdir(parents=True)


def fifo(path: Path, other: Path) -> None:
    delete(path, other)
    os.mkfifo(path)


def link_to_anothers(path: Path, other: Path) -> None:
    delete(path, other)
    path.symlink_to(other)


def anothers(path: Path, other: Path) -> None:
    delete(path, other)
    if other.is_dir():
        shutil.copytree(other, path)
    elif other.exists():
        shutil.copyfile(other, path)
