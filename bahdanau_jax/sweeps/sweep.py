"""Running the cells of a sweep: new ones begin, half-done ones go on, finished ones stay.

W/sweep.json                the cells, the configurations they were made from, each start's command
W/score=dot,seed=1/         a workdir like any other, with log.txt and, if it failed, failed.json
"""

import datetime
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bahdanau_jax.config import Config
from bahdanau_jax.durable import without_checksum, write_atomically
from bahdanau_jax.effects import ineffective
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import differences, to_dict
from bahdanau_jax.stored_files import read_json
from bahdanau_jax.sweeps.executors import LOG, Ended, Job, command_line, last_line
from bahdanau_jax.sweeps.grid import SEEDS, Cell
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir import metrics_log

SWEEP = "sweep.json"
FAILED = "failed.json"
CHECKPOINTS = "checkpoints"
WAIT = 60.0  # seconds that a cell of a sweep that was killed gets to end

Run = Callable[[Sequence[Job], Callable[[Job], None]], Iterable[Ended]]


def sweep(
    directory: Path,
    cells: Sequence[Cell],
    command: Sequence[str],
    run: Run,
    say: Callable[[str], None],
    notes: Sequence[str] = (),
) -> list[str]:
    """Runs all cells that aren't finished.

    Args:
      directory: the sweep's workdir; made if absent.
      cells: valid, with names of their own.
      command: what runs the configuration that the cells share; a cell's flags go behind it.
      run: the executor: takes jobs and what to tell of each start, and yields them as they end.
      say: told what happens.
      notes: sentences about the cells to keep with them, as how they were matched.

    Returns:
      The names of the cells that failed.

    Raises:
      InputError: a cell's workdir holds another configuration; nothing was started then.
    """
    for cell in cells:
        try:
            workdir.check_config(directory / cell.name, cell.config)
        except InputError as error:
            raise InputError(f"the cell {cell.name} can't go on: {error}") from error
    with workdir.lock(directory):
        for note in list_cells(directory, cells, notes):
            say(note)
        finished = [cell for cell in cells if is_finished(directory / cell.name)]
        left = [cell for cell in cells if cell not in finished]
        half = sum((directory / cell.name / CHECKPOINTS).is_dir() for cell in left)
        say(
            f"{len(cells)} cells: {len(finished)} finished, {half} to go on, "
            f"{len(left) - half} to begin"
        )
        jobs = [
            Job(cell.name, cell_command(command, cell, directory), directory / cell.name)
            for cell in left
        ]
        return _run(directory, jobs, run, say)


def cell_command(command: Sequence[str], cell: Cell, directory: Path) -> list[str]:
    """Returns the command that runs one cell.

    Of the fields that the cells share, those are left out that the cell sets itself or that change
    nothing in it: its own process would refuse them.
    """
    own = {*cell.values, *cell.matched, *ineffective(cell.config)}
    names = [part.partition("=")[0].removeprefix("--config.") for part in command]
    shared = [part for part, name in zip(command, names, strict=True) if name not in own]
    return [*shared, *cell.arguments(), f"--workdir={directory / cell.name}"]


def print_commands(
    directory: Path, cells: Sequence[Cell], command: Sequence[str], stream: Any
) -> None:
    """Prints a shell's command line for every cell; writes and starts nothing."""
    for cell in cells:
        print(command_line(cell_command(command, cell, directory)), file=stream)


def is_finished(directory: Path) -> bool:
    """Returns whether a cell has come to its end."""
    return (directory / metrics_log.RESULT).exists()


def read_sweep(directory: Path) -> dict[str, Any]:
    """Reads `sweep.json`: `cells`, `starts` and `notes`.

    Raises:
      InputError: there is none, or it can't be read.
    """
    path = directory / SWEEP
    try:
        known = without_checksum(read_json(path))
        whole = isinstance(known["notes"], list)
        whole &= all(isinstance(start["command"], list) for start in known["starts"])
        for entry in known["cells"]:
            whole &= isinstance(entry["name"], str) and isinstance(entry["values"], dict)
        if not whole:
            raise ValueError
    except FileNotFoundError:
        raise InputError(
            f"{directory}: no {SWEEP} here; give the workdir of a sweep, or start one by --sweep"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: can't be read ({type(error).__name__}); move it away, and give the sweep's "
            "command again: finished cells stay as they are"
        ) from error
    for name in (entry["name"] for entry in known["cells"]):
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise InputError(f"{path}: {name!r} is no name of a cell, which lies beside it")
    return known


def write_failure(directory: Path, status: int, why: str) -> None:
    """Notes in a cell's workdir that it failed, and why."""
    time_now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    failure = {"status": status, "why": why, "time": time_now}
    directory.mkdir(parents=True, exist_ok=True)
    write_atomically(directory / FAILED, metrics_log.to_json(failure, checksum=True))


def read_failure(directory: Path) -> str | None:
    """Returns why a cell failed, None if it didn't."""
    path = directory / FAILED
    if is_finished(directory) or not path.exists():
        return None
    try:
        return str(without_checksum(read_json(path))["why"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{FAILED} can't be read ({type(error).__name__})"


def _run(directory: Path, jobs: Sequence[Job], run: Run, say: Callable[[str], None]) -> list[str]:
    for job in jobs:
        wait_for(job.directory, say, WAIT)
        (job.directory / FAILED).unlink(missing_ok=True)
    failed, busy, ended, begun = [], [], 0, 0

    def started(job: Job) -> None:
        nonlocal begun
        begun += 1
        say(f"[{begun}/{len(jobs)}] {job.name} begins; it writes to {job.directory / LOG}")

    for name, status, seconds in run(jobs, started):
        ended += 1
        cell = directory / name
        if status == 0 and is_finished(cell):
            say(f"[{ended}/{len(jobs)}] {name} finished in {seconds:,.0f} s")
            continue
        if workdir.is_busy(cell):
            say(f"[{ended}/{len(jobs)}] {name} is trained by another process")
            busy += [job for job in jobs if job.name == name]
            continue
        why = last_line(cell / LOG) or f"it ended with status {status} and said nothing"
        write_failure(cell, status, why)
        failed.append(name)
        say(f"[{ended}/{len(jobs)}] {name} FAILED after {seconds:,.0f} s: {why}")
    if failed:
        say(f"{len(failed)} of {len(jobs)} cells failed; the same command runs them again:")
        for name in failed:
            say(f"  {name}: {read_failure(directory / name)} (see {directory / name / LOG})")
    for job in busy:
        wait_for(job.directory, say)
    left = [job for job in busy if not is_finished(job.directory)]
    return failed + (_run(directory, left, run, say) if left else [])


def wait_for(directory: Path, say: Callable[[str], None], longest: float = math.inf) -> None:
    """Waits until no other process trains in a cell, as one that goes on without its sweep.

    Args:
      directory: the cell's workdir.
      say: told once.
      longest: in seconds.

    Raises:
      InputError: one trains there longer than that.
    """
    until, told = time.monotonic() + longest, False
    while directory.is_dir():
        try:
            with workdir.lock(directory):
                return
        except workdir.BusyError:
            if time.monotonic() > until:
                raise
            if not told:
                say(f"waiting for the process that still trains in {directory}")
            told = True
            time.sleep(0.2)


def list_cells(directory: Path, cells: Sequence[Cell], notes: Sequence[str]) -> list[str]:
    """Adds cells and this start to `sweep.json`; what earlier starts wrote stays.

    Returns:
      What is to be said of it: where the cells are made from another configuration than earlier
      ones, the fields that differ.
    """
    known: dict[str, Any] = {"starts": [], "cells": [], "notes": []}
    if (directory / SWEEP).exists():
        known = read_sweep(directory)
    listed = {entry["name"]: entry for entry in known["cells"]}
    bases, others = list(known.get("bases", [])), []
    for cell in cells:
        base = to_dict(cell.base)
        if base not in bases:
            others += [_other_base(bases[0], cell.base)] if bases else []
            bases.append(base)
        listed[cell.name] = {
            "name": cell.name,
            "values": cell.values,
            "matched": cell.matched,
            "base": bases.index(base),
        }
    others = [note for note in others if note]
    start = {
        "time": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": list(sys.argv),
    }
    written = {
        "cells": list(listed.values()),
        "bases": bases,
        "starts": [*known["starts"], start],
        "notes": list(dict.fromkeys([*known["notes"], *notes, *others])),
    }
    write_atomically(directory / SWEEP, metrics_log.to_json(written, checksum=True))
    return others


def _other_base(first: dict[str, Any], base: Config) -> str:
    """Says in which fields a base differs from the sweep's first; empty if in seeds alone."""
    changed = [
        f"{path} is {new!r} and was {old!r}"
        for path, (old, new) in differences(first, base).items()
        if path not in SEEDS
    ]
    if not changed:
        return ""
    return (
        f"cells are added to this sweep with another configuration: {'; '.join(changed)}; compare "
        "gives them rows of their own"
    )
