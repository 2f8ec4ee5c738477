"""A mirror of the figures for TensorBoard, without TensorFlow and without a thread."""

import contextlib
import logging
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FLUSH_SECONDS = 30.0


class EventFile:
    """An event file that takes scalars; a disk that takes no more ends it with a warning."""

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
