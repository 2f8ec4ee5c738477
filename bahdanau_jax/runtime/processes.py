"""The processes of a run over several hosts: how they find and hear each other.

All of them do the same in the same order. Only the first writes logs, and only it evaluates, on the
devices of its own host, while the others wait for the figures.
"""

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import jax
import numpy as np
from jax import lax
from jax.experimental import multihost_utils

from bahdanau_jax.errors import InputError, RunError, flat
from bahdanau_jax.runtime import devices

HEARTBEAT = 30  # seconds without a sign of life before a process counts as dead
START = 300  # seconds that the processes may take to find each other
_LONGEST_MESSAGE = 2000  # bytes
# In what the libraries below say when another process doesn't answer.
_LOST = ("Gloo", "NCCL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "eartbeat", "Socket closed")


def join(coordinator: str | None, process: int | None, processes: int | None) -> None:
    """Joins this process with the others; before anything else of JAX is used.

    Args:
      coordinator: HOST:PORT of the first process; None: as Slurm, Cloud TPU or Kubernetes says.
      process: number of this process, from 0; None: likewise.
      processes: how many there are; None: likewise.

    Raises:
      InputError: they can't find each other.
    """
    if coordinator is not None and not re.fullmatch(r".+:\d+", coordinator):
        raise InputError(f"--coordinator must be HOST:PORT; it is {coordinator!r}")
    if process is not None and processes is not None and process >= processes:
        raise InputError(f"--process must be below --processes; they are {process} and {processes}")
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            initialization_timeout=START,
            heartbeat_timeout_seconds=HEARTBEAT,
            shutdown_timeout_seconds=HEARTBEAT,
        )
    except (ValueError, RuntimeError) as error:
        words = flat(error)[:300]
        raise InputError(
            f"--distributed: the processes don't find each other ({words}); under Slurm start them "
            "with srun, elsewhere give --coordinator=HOST:PORT, --processes and --process"
        ) from error
    with _standard_output_to_error():
        multihost_utils.sync_global_devices("join")  # at which Gloo prints a greeting


@contextlib.contextmanager
def _standard_output_to_error() -> Iterator[None]:
    """Keeps standard output, which is for results, from what libraries in C++ print on it."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def count() -> int:
    """Returns the number of processes."""
    return jax.process_count()


def is_first() -> bool:
    """Returns whether this process is the one that writes logs; the only one is."""
    return jax.process_index() == 0


def from_first(value: Any) -> Any:
    """Returns the first process's value in every one.

    Args:
      value: what JSON can hold, and NumPy's numbers; that of the other processes is passed over.
    """
    if count() == 1:
        return value
    content = np.frombuffer(json.dumps(value, default=lambda x: x.item()).encode(), np.uint8)
    size = int(multihost_utils.broadcast_one_to_all(np.int32(len(content))))
    if not is_first():
        content = np.zeros(size, np.uint8)
    return json.loads(np.asarray(multihost_utils.broadcast_one_to_all(content)).tobytes())


@contextlib.contextmanager
def together() -> Iterator[None]:
    """Raises in every process what goes wrong in one of them within; they wait at the end.

    Within it no process may wait for another.

    Raises:
      InputError: one met an InputError.
      RunError: one met any other error, which it raises itself.
    """
    if count() == 1:
        yield
        return
    failure, message = None, b""
    try:
        yield
    except Exception as error:
        failure = error
        kind = "input" if isinstance(error, InputError) else "other"
        message = f"{kind} {error}".encode()[:_LONGEST_MESSAGE]
    padded = np.zeros(_LONGEST_MESSAGE, np.uint8)
    padded[: len(message)] = np.frombuffer(message, np.uint8)
    rows = np.asarray(multihost_utils.process_allgather(padded))
    if failure and not isinstance(failure, InputError):
        raise failure
    for number, row in enumerate(rows):
        kind, _, text = row.tobytes().rstrip(b"\0").decode(errors="ignore").partition(" ")
        if kind:
            raise (InputError if kind == "input" else RunError)(f"process {number}: {text}")


class Vote:
    """Asks all processes a question at every step, and never waits for the answer.

    With several processes the answer is that of the call before, the same in all of them.
    """

    def __init__(self) -> None:
        self._count = devices.on_devices(
            lambda _, yes: lax.psum(yes.sum(), devices.AXIS), across_processes=True
        )
        self._asked: Any = None

    def any(self, mine: bool) -> bool:
        """Returns whether any process says yes, or with several said so at the last call."""
        if count() == 1:
            return mine
        before, votes = self._asked, np.full(jax.local_device_count(), mine, np.int32)
        self._asked = self._count(np.int32(0), devices.shard(votes, across_processes=True))
        return before is not None and int(before) > 0


@contextlib.contextmanager
def until_one_dies() -> Iterator[None]:
    """Ends this process at once if another one is lost: whatever it waited for never comes."""
    try:
        yield
    except (RuntimeError, ValueError) as error:  # Gloo's errors come as either
        if count() == 1 or not any(word in str(error) for word in _LOST):
            raise
        _leave(flat(error)[:200])


def leave_together() -> None:
    """Waits for the other processes, and ends the connection to them."""
    if count() > 1:
        jax.distributed.shutdown()


def _leave(words: str) -> NoReturn:
    program = "launch.py" if Path(sys.argv[0]).name == "launch.py" else "bahdanau_jax"
    print(
        f"{program}: process {jax.process_index()} has lost another process of the run ({words}); "
        "start all of them again: the run goes on from its last checkpoint",
        file=sys.stderr,
        flush=True,
    )
    os._exit(1)
