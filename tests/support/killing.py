"""Training in a process of its own that is killed at a chosen moment.

A moment is a call of one of the functions that change something: a step, a line of metrics, a file
renamed, a checkpoint's files written, confirmed, copied. The process dies some milliseconds after
the chosen one has begun, wherever it is by then.
"""

import contextlib
import io
import itertools
import os
import shutil
import signal
import threading
import time
from pathlib import Path

from launching import SERVER

from bahdanau_jax import durable
from bahdanau_jax.config import Config
from bahdanau_jax.data.batching import Batcher
from bahdanau_jax.training.train import train
from bahdanau_jax.workdir.checkpoints import Checkpoints
from bahdanau_jax.workdir.metrics_log import MetricsWriter

MOMENTS = [
    (Batcher, "batch"),
    (MetricsWriter, "write"),
    (Checkpoints, "save"),
    (durable, "write_checksums"),
    (durable, "confirm"),
    (shutil, "copytree"),
    (os, "replace"),
    (os, "rename"),
]


def train_until_killed(config: Config, directory: Path, moment: int, delay: float) -> int:
    """Trains in a process of its own.

    Args:
      config: of the run.
      directory: its workdir.
      moment: number of the moment after which it is killed, from 0; of one that never comes: not.
      delay: seconds between the moment and the kill.

    Returns:
      The process's exit status: 0 at the run's end, -9 if it was killed.
    """
    process = SERVER.Process(target=_train, args=(config, directory, moment, delay))
    process.start()
    process.join()
    assert process.exitcode is not None
    return process.exitcode


def _train(config: Config, directory: Path, moment: int, delay: float) -> None:
    count = itertools.count()

    def die() -> None:
        time.sleep(delay)
        os.kill(os.getpid(), signal.SIGKILL)

    def watch(owner, name: str) -> None:
        original = getattr(owner, name)

        def watched(*args, **kwargs):
            if next(count) == moment:
                threading.Thread(target=die, daemon=True).start()
            return original(*args, **kwargs)

        setattr(owner, name, watched)

    for owner, name in MOMENTS:
        watch(owner, name)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        train(config, directory, [])
