"""What a run leaves behind of its figures: those of each step, a mirror of them, and its result."""

import contextlib
import hashlib
import json
import logging
import math
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

from bahdanau_jax.durable import NamedFile, with_checksum, without_checksum, write_atomically
from bahdanau_jax.errors import InputError
from bahdanau_jax.stored_files import open_regular, parse_json, read_json

METRICS = "metrics.jsonl"
RESULT = "result.json"
TENSORBOARD = "tensorboard"
FLUSH_SECONDS = 30.0  # between two writes of event files to the disk


def write_result(workdir: str | os.PathLike[str], result: Mapping[str, Any]) -> None:
    """Writes `result.json`, replacing an earlier one at once.

    Args:
      workdir: the run's directory, which exists.
      result: figures by name, nested as wanted; see `to_json`.
    """
    write_atomically(Path(workdir) / RESULT, to_json(result, checksum=True))


def read_result(workdir: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Returns what `write_result` wrote, infinities and NaN as strings; None if there is none.

    Raises:
      InputError: it can't be read.
    """
    path = Path(workdir) / RESULT
    if not path.exists():
        return None
    try:
        result = without_checksum(read_json(path))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path}: can't be read ({type(error).__name__}); move it away, and run again"
        ) from error
    if not isinstance(result, dict):
        raise InputError(f"{path}: has no figures by name; move it away, and run again")
    return result


def to_json(value: Any, *, checksum: bool = False) -> str:
    """Returns indented JSON that every reader accepts.

    Args:
      value: nested mappings and sequences of strings, booleans, None, and numbers, NumPy's and
        JAX's scalars among them. Numbers that JSON doesn't have become the strings `nan`, `inf`
        and `-inf`, which `float` reads.
      checksum: add that of all else to a mapping; `without_checksum` compares it.
    """
    value = with_checksum(_plain(value)) if checksum else _plain(value)
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def read_metrics(workdir: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Reads `metrics.jsonl`.

    Args:
      workdir: the run's directory.

    Returns:
      One dictionary a line: `step`, and numbers by name. A last line that was cut off is left out.

    Raises:
      InputError: there is no such file, or it can't be read.
    """
    path = Path(workdir) / METRICS
    if not path.exists():
        raise InputError(f"{workdir}: no {METRICS} here; train in it first, or check --workdir")
    return [{name: _number(value) for name, value in line.items()} for line in _lines(path)]


class Written(NamedTuple):
    """What the first lines of `metrics.jsonl` are known by."""

    lines: int
    digest: int  # of their bytes, below 2^48

    @property
    def mark(self) -> str:
        """Both as text, which `is_marked` reads."""
        return f"{self.lines} {self.digest}"


def written(workdir: str | os.PathLike[str], lines: int | None = None) -> Written:
    """Returns what the first lines of `metrics.jsonl` are known by.

    Args:
      workdir: the run's directory.
      lines: how many of them; there may be fewer. None: all.

    Raises:
      InputError: the file can't be read.
    """
    texts = _texts(Path(workdir) / METRICS)[:-1][:lines]
    hashed = hashlib.sha256()
    for text in texts:
        hashed.update(text + b"\n")
    return Written(len(texts), _number_of(hashed))


def is_marked(workdir: str | os.PathLike[str], mark: str) -> bool:
    """Returns whether `metrics.jsonl` begins with the lines that a mark was made of.

    Raises:
      InputError: the file can't be read.
    """
    return written(workdir, int(mark.partition(" ")[0])).mark == mark


class Metrics:
    """Where figures go in a process that writes none. A context manager.

    Attributes:
      written: what the lines of the run so far are known by.
    """

    written = Written(0, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, step: int, figures: Mapping[str, Any]) -> None:
        """Takes the figures, by name, as they were after `step` updates."""

    def confirm(self) -> None:
        """Waits until the disk has what was written."""

    def close(self) -> None:
        """Closes what is open."""


class MetricsWriter(Metrics):
    """Appends to `metrics.jsonl`, and mirrors it for TensorBoard.

    Where the disk is full, lines wait in memory for the next one; `confirm` says whether any does.
    """

    def __init__(
        self,
        workdir: str | os.PathLike[str],
        resume_step: int | None = None,
        *,
        resume_lines: int | None = None,
        mirror: bool = True,
    ):
        """Opens the file, without the lines that the run is going to write again.

        Args:
          workdir: the run's directory, which exists.
          resume_step: the step of the checkpoint that the run goes on from: lines of later steps
            are dropped, and so is a last line that was cut off. None: a new run; all are dropped.
          resume_lines: how many there were at that checkpoint; those after it are dropped too.
          mirror: whether to write event files under `tensorboard/`.
        """
        path = Path(workdir) / METRICS
        kept = [] if resume_step is None else [x for x in _lines(path) if x["step"] <= resume_step]
        kept = kept[:resume_lines]
        write_atomically(path, "".join(map(_line, kept)))
        self._lines, self._hashed = 0, hashlib.sha256()
        for line in kept:
            self._count(_line(line).encode())
        self._waiting = b""
        self._stream = NamedFile(path, "ab")
        self._board = None
        if mirror:
            purge_step = 0 if resume_step is None else resume_step + 1
            self._board = EventFile(Path(workdir) / TENSORBOARD, purge_step)

    def write(self, step: int, figures: Mapping[str, Any]) -> None:
        """Writes one line, which is in the file when the call returns if there is room.

        Args:
          step: updates done when the figures were taken.
          figures: numbers by name, as `train/loss`, `dev/nll_per_token`, `speed/tokens`; what
            isn't a number goes into the file only.
        """
        line = {"step": int(step), **{name: _plain(value) for name, value in figures.items()}}
        self._waiting += self._count(_line(line).encode())
        with contextlib.suppress(OSError):
            self._append()
        if self._board is not None:
            numbers = {name: _number(value) for name, value in line.items() if name != "step"}
            self._board.write(
                step, {name: x for name, x in numbers.items() if isinstance(x, int | float)}
            )

    def confirm(self) -> None:
        """Waits until the disk has every line; raises OSError if there is no room."""
        self._append()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        """Closes the files."""
        with contextlib.suppress(OSError), self._stream:
            self._append()
        if self._board is not None:
            self._board.close()

    def _count(self, line: bytes) -> bytes:
        self._lines += 1
        self._hashed.update(line)
        self.written = Written(self._lines, _number_of(self._hashed))
        return line

    def _append(self) -> None:
        while self._waiting:
            # A disk that fills up takes a part.
            self._waiting = self._waiting[self._stream.write(self._waiting) :]


class EventFile:
    """A mirror of scalars for TensorBoard, without TensorFlow and without a thread.

    A disk that takes no more ends it with a warning.
    """

    def __init__(self, directory: Path, purge_step: int):
        """Makes the file at the first figure.

        Args:
          directory: made if absent.
          purge_step: what earlier files hold of this step and later ones is hidden.
        """
        self._directory, self._purge_step = directory, purge_step
        self._writer: Any = None
        self._flushed = 0.0
        self._failed = False

    def write(self, step: int, figures: Mapping[str, float]) -> None:
        """Writes numbers by name, taken after `step` updates."""
        if self._failed or not figures:
            return
        try:
            self._write(step, figures)
        except OSError as error:
            self._failed = True
            logging.warning(
                "%s can't be written (%s); the figures are in metrics.jsonl alone from here on",
                self._directory,
                error.strerror,
            )

    def close(self) -> None:
        """Writes what is still in memory, and closes the file."""
        if self._writer is not None:
            with contextlib.suppress(OSError):  # which was said when it came first
                self._writer.close()

    def _write(self, step: int, figures: Mapping[str, float]) -> None:
        _import_without_torch()
        from tensorboardX.event_file_writer import EventsWriter
        from tensorboardX.proto import event_pb2
        from tensorboardX.summary import scalar

        messages: Any = event_pb2  # whose classes are made when it is imported
        now = time.time()
        if self._writer is None:
            self._directory.mkdir(exist_ok=True)
            self._writer = EventsWriter(os.fspath(self._directory / "events"))
            log = messages.SessionLog(status=messages.SessionLog.START)
            self._writer.write_event(
                messages.Event(wall_time=now, step=self._purge_step, session_log=log)
            )
        for name, value in figures.items():
            event = messages.Event(wall_time=now, step=step, summary=scalar(name, value))
            self._writer.write_event(event)
        if now - self._flushed >= FLUSH_SECONDS:
            self._writer.flush()
            self._flushed = now


def _import_without_torch() -> None:
    """Imports tensorboardX, which would import PyTorch for the sake of an annotation.

    That takes seconds where PyTorch is installed; a None among the loaded modules makes it fail, as
    where it's absent.
    """
    if "tensorboardX" in sys.modules:
        return
    absent = "torch" not in sys.modules
    if absent:
        sys.modules["torch"] = None  # type: ignore[assignment]
    try:
        import tensorboardX  # noqa: F401
    finally:
        if absent:
            del sys.modules["torch"]
    # It warns of every NaN; the figure itself says so already.
    logging.getLogger("tensorboardX.x2num").setLevel(logging.ERROR)


def _lines(path: Path) -> list[dict[str, Any]]:
    """Reads JSON lines that have a step; what a killed process cut off isn't one."""
    lines, texts = [], _texts(path)
    for number, text in enumerate(texts, 1):
        try:
            line = parse_json(text)
            lines.append(line | {"step": int(line["step"])})
        except (ValueError, KeyError, TypeError, OverflowError):
            if number < len(texts):
                logging.warning("%s: line %d isn't a line of metrics; left out", path, number)
    return lines


def _texts(path: Path) -> list[bytes]:
    """Returns the file's lines, and what comes after the last line end."""
    if not path.exists():
        return [b""]
    try:
        with open_regular(path) as stream:
            return stream.read().split(b"\n")
    except OSError as error:
        raise InputError(f"{path}: can't be read ({error.strerror}); bring it back") from error


def _number_of(hashed: Any) -> int:
    """Returns the beginning of a SHA-256 as a number that JSON's readers have exactly."""
    return int.from_bytes(hashed.digest()[:6], "big")


def _line(figures: Mapping[str, Any]) -> str:
    return json.dumps(figures, ensure_ascii=False, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Returns the value as JSON has it."""
    if isinstance(value, Mapping):
        return {str(name): _plain(x) for name, x in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(x) for x in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def _number(value: Any) -> Any:
    return float(value) if value in ("nan", "inf", "-inf") else value
