"""The directory of one run: its configuration and its lock.

A workdir holds one experiment for good. A second one in the same place is refused, and so is a
second process that would write to it.
"""

import contextlib
import errno
import fcntl
import itertools
import logging
import os
import socket
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from bahdanau_jax import fields
from bahdanau_jax.config import Config
from bahdanau_jax.durable import write_atomically
from bahdanau_jax.effects import ineffective
from bahdanau_jax.errors import InputError
from bahdanau_jax.stored_files import open_regular, read_text, refuse_strange_files

CONFIG = "config.json"
LOCK = ".lock"
HELD = (CONFIG, "manifest.json", "metrics.jsonl", "checkpoints")  # one of them: there is a run


class BusyError(InputError):
    """Another process trains in the workdir."""


@contextlib.contextmanager
def lock(workdir: str | os.PathLike[str]) -> Iterator[None]:
    """Keeps other processes from training in `workdir` while the context lasts.

    The kernel holds the lock (flock), so that it ends with the process, however that ends: a lock
    file that a killed run left behind refuses nobody.

    Args:
      workdir: the run's directory; made if absent.

    Raises:
      BusyError: another process trains there; names its process id and host.
      InputError: the workdir can't be made, or written to.
    """
    path = make(workdir) / LOCK
    with _open_lock(path) as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                logging.warning(
                    "%s can't be locked (%s); don't train in it twice at once", path, error.strerror
                )
            else:
                holder = stream.read(200).decode(errors="replace").strip() or "unknown"
                raise BusyError(
                    f"{workdir}: another process trains here (process {holder}); wait until it "
                    "ends, stop it, or choose another --workdir"
                ) from None
        stream.truncate(0)
        stream.write(f"{os.getpid()} on {socket.gethostname()}\n".encode())
        stream.flush()
        yield


def _open_lock(path: Path) -> BinaryIO:
    try:
        return open_regular(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (None, errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise
        raise InputError(f"{path}: no regular file, so it locks nothing; remove it") from error


def is_busy(workdir: str | os.PathLike[str]) -> bool:
    """Returns whether another process trains in a workdir."""
    if not (Path(workdir) / LOCK).exists():
        return False
    try:
        with lock(workdir):
            return False
    except BusyError:
        return True


def move_aside(workdir: str | os.PathLike[str]) -> Path | None:
    """Moves a run's directory out of the way, whole.

    Args:
      workdir: the run's directory.

    Returns:
      Where it lies now, beside its former place; None where there was no run.

    Raises:
      InputError: another process trains there, or it can't be moved.
    """
    path = Path(workdir)
    if not any((path / name).exists() for name in HELD):
        return None
    if Path.cwd().is_relative_to(path.resolve()):
        raise InputError(
            f"--restart can't move {workdir}, where this command runs; run it elsewhere"
        )
    with lock(path):
        names = (path.with_name(f"{path.name}.old-{number}") for number in itertools.count(1))
        target = next(name for name in names if not os.path.lexists(name))
        try:
            path.rename(target)
        except OSError as error:
            raise InputError(f"--restart can't move {workdir} ({error.strerror})") from error
    return target


def make(workdir: str | os.PathLike[str]) -> Path:
    """Returns the path of a run's directory, which exists afterwards.

    Args:
      workdir: the run's directory.

    Raises:
      InputError: it can't be made, or can't be written to.
    """
    path = Path(workdir)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{workdir}: can't be used as a workdir ({error.strerror}); choose another --workdir"
        ) from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise InputError(f"{workdir}: may not be written to; choose another --workdir")
    return path


def write_config(
    workdir: str | os.PathLike[str], config: Config, may_differ: Collection[str] = ()
) -> None:
    """Writes `config.json` in a new workdir; in one that has it, checks that it's the same.

    What was written first stays as it is, also where a field differs that may.

    Args:
      workdir: the run's directory, which exists.
      config: the configuration of the run that starts.
      may_differ: paths of fields, as `train.steps`, that a resumed run may change.

    Raises:
      InputError: the workdir holds another configuration; names the fields and both values.
    """
    check_config(workdir, config, may_differ)
    path = Path(workdir) / CONFIG
    if not path.exists():
        write_atomically(path, fields.to_json(config))


def check_config(
    workdir: str | os.PathLike[str], config: Config, may_differ: Collection[str] = ()
) -> None:
    """Checks, as `write_config`, that the workdir is new or holds this configuration.

    Fields that change nothing, given the others, may differ.
    """
    refuse_strange_files(workdir)
    if not (Path(workdir) / CONFIG).exists():
        if any(Path(workdir).glob("checkpoints/*/[0-9]*")):
            # Any other configuration of the same shapes would go on from them without a word.
            raise InputError(
                f"{workdir} has checkpoints, but its {CONFIG} is missing; bring it back, or choose "
                "another --workdir"
            )
        return
    before = fields.to_dict(read_config(workdir))
    # The fields that decide which others change nothing have to be the same anyway.
    may_differ = {*may_differ, *ineffective(config)}
    differing = [
        f"{field} is {old!r} there and {new!r} now"
        for field, (old, new) in fields.differences(before, config).items()
        if field not in may_differ
    ]
    if differing:
        raise InputError(
            f"{workdir} holds a run of another configuration: {'; '.join(differing)}; "
            "give the same values again, or choose another --workdir"
        )


def read_config(workdir: str | os.PathLike[str]) -> Config:
    """Reads the configuration that `workdir` was made with.

    Args:
      workdir: the run's directory.

    Returns:
      The configuration, not validated.

    Raises:
      InputError: there is no run, or its `config.json` isn't one.
    """
    path = Path(workdir) / CONFIG
    try:
        refuse_strange_files(workdir)
        text = read_text(path)
    except FileNotFoundError:
        raise InputError(
            f"{workdir}: no {CONFIG} here; train in it first, or check --workdir"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: can't be read ({error})") from error
    try:
        return fields.from_json(text)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
