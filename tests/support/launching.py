"""`python launch.py …` as a user runs it, without the seconds that its imports take.

Every call is a process of its own, forked from one that has imported what launch.py imports and
has neither parsed a flag nor touched a device.
"""

import hashlib
import importlib.metadata
import multiprocessing
import os
import runpy
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
LAUNCH = ROOT / "launch.py"

SERVER = multiprocessing.get_context("forkserver")
SERVER.set_forkserver_preload(
    [
        "bahdanau_jax.cli.program",
        "bahdanau_jax.cli.dispatch",
        "launching",
        "killing",
        "strangers",
    ]
)


class Finished(NamedTuple):
    status: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        """Standard error, line by line."""
        return self.err.splitlines()


class Launched:
    """A launch.py that runs, or has run."""

    def __init__(
        self,
        arguments,
        scratch: Path,
        stdin: bytes = b"",
        hidden: tuple[str, ...] = (),
        devices: int = 1,
    ):
        """Starts it.

        Args:
          arguments: of the command line.
          scratch: the directory that it runs in; standard streams are files below it.
          stdin: standard input.
          hidden: distributions that it must not find installed.
          devices: processors that it sees.
        """
        number = len(list(scratch.glob(".launch-*")))
        self._streams = [scratch / f".launch-{number}-{name}" for name in ("in", "out", "err")]
        self._streams[0].write_bytes(stdin)
        paths = [str(path) for path in self._streams]
        self.process = SERVER.Process(
            target=_run, args=([str(a) for a in arguments], str(scratch), paths, hidden, devices)
        )
        self.process.start()

    def finish(self, timeout: float = 600) -> Finished:
        """Waits for its end."""
        self.process.join(timeout)
        if self.process.is_alive():
            self.process.kill()
            raise TimeoutError(f"launch.py runs for more than {timeout} s: {self.err()}")
        status = self.process.exitcode
        assert status is not None
        return Finished(status, self._streams[1].read_bytes(), self.err())

    def send(self, number: int) -> None:
        """Sends it a signal."""
        assert self.process.pid is not None
        os.kill(self.process.pid, number)

    def wait_for(self, happened: Callable[[], object]) -> None:
        """Returns once something has happened while it runs."""
        while not happened():
            self.process.join(0.05)
            assert self.process.is_alive(), self.err()

    def err(self) -> str:
        """Returns what it has written to standard error so far."""
        path = self._streams[2]
        return path.read_text(encoding="utf-8") if path.exists() else ""


def launch(arguments, scratch: Path, stdin: bytes = b"", **options) -> Finished:
    """Runs launch.py to its end; arguments as of `Launched`."""
    return Launched(arguments, scratch, stdin, **options).finish()


def run_with_streams(arguments, scratch: Path, out: str, err: str, encoding: str) -> int:
    """Runs launch.py to its end with streams that may take nothing; returns its exit status.

    Args:
      arguments: of the command line.
      scratch: the directory that it runs in; files of what it prints are `.out` and `.err` there.
      out: what standard output is: file, full, closed, or pipe nobody reads.
      err: the same of standard error.
      encoding: of both.
    """
    process = SERVER.Process(
        target=_run_with_streams,
        args=([str(a) for a in arguments], str(scratch), (out, err), encoding),
    )
    process.start()
    process.join(600)
    assert process.exitcode is not None
    return process.exitcode


def tree_hash(directory: Path) -> str:
    """Returns a digest of every name, time of change and byte below a directory but the lock."""
    digest = hashlib.sha256()
    for path in sorted(directory.rglob("*")):
        if path.name == ".lock":
            continue
        status = path.stat()
        digest.update(repr((str(path.relative_to(directory)), status.st_mtime_ns)).encode())
        if path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _run(
    arguments: list[str], cwd: str, streams: list[str], hidden: tuple[str, ...], devices: int
) -> None:
    os.chdir(cwd)
    for descriptor, path in enumerate(streams):
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.dup2(file, descriptor)
        os.close(file)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    for name in hidden:
        _hide(name)
    if devices > 1:
        import jax

        jax.config.update("jax_num_cpu_devices", devices)
    _start(arguments)


def _run_with_streams(
    arguments: list[str], cwd: str, streams: tuple[str, str], encoding: str
) -> None:
    os.chdir(cwd)
    sys.stdout = _stream(1, streams[0], ".out", encoding)
    sys.stderr = _stream(2, streams[1], ".err", encoding)
    _start(arguments)


def _stream(descriptor: int, kind: str, name: str, encoding: str) -> Any:
    """Puts a stream at a descriptor, and returns it as the interpreter itself makes it."""
    os.close(descriptor)
    if kind == "closed":
        return None
    if kind == "pipe nobody reads":
        reader, file = os.pipe()
        os.close(reader)
    else:
        path = "/dev/full" if kind == "full" else name
        file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    if file != descriptor:
        os.dup2(file, descriptor)
        os.close(file)
    return open(descriptor, "w", encoding=encoding, closefd=False)


def _start(arguments: list[str]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as at a terminal
    # As the interpreter itself has them when it is given a script.
    sys.argv = [str(LAUNCH), *arguments]
    sys.path[0:0] = [str(ROOT)]
    runpy.run_path(str(LAUNCH), run_name="__main__")


def _hide(name: str) -> None:
    files, distribution = importlib.metadata.files, importlib.metadata.distribution

    def refuse(original):
        def find(wanted):
            if wanted == name:
                raise importlib.metadata.PackageNotFoundError(wanted)
            return original(wanted)

        return find

    importlib.metadata.files = refuse(files)
    importlib.metadata.distribution = refuse(distribution)
