"""Where the cells of a sweep run: side by side on this machine, or as an array of Slurm jobs."""

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax.errors import InputError, flat
from bahdanau_jax.runtime.signals import Notice
from bahdanau_jax.stored_files import open_regular
from bahdanau_jax.terminal import say

LOG = "log.txt"  # in a cell's workdir: all that its runs have written
POLL = 0.05  # seconds between two looks at the processes
PATIENCE = 40.0  # seconds that a cell gets to save and end, once it is told to
SHARE = Path(__file__).with_name("share.py")


class Job(NamedTuple):
    """A cell that is to be run."""

    name: str
    command: list[str]
    directory: Path  # its workdir; made if absent


class Ended(NamedTuple):
    """A cell whose process has ended."""

    name: str
    status: int  # 0: it finished; below 0: the signal that ended it
    seconds: float


class _Running(NamedTuple):
    process: subprocess.Popen
    slot: int
    began: float


def run_local(
    jobs: Sequence[Job], parallel: int, started: Callable[[Job], None]
) -> Iterator[Ended]:
    """Runs every job as a process of its own.

    Args:
      jobs: in the order in which they start.
      parallel: how many run at once; 0: as many as there are GPUs, or one. Each gets its share of
        the processor's cores and, where there are any, of the GPUs.
      started: told of each job that starts.

    Yields:
      The jobs as they end.

    Raises:
      Stopped: a signal asked for it; the jobs that ran have saved and ended.
    """
    gpus = visible_gpus()
    slots = min(parallel or max(len(gpus), 1), max(len(jobs), 1))
    waiting, running = list(jobs), dict[str, _Running]()
    # Held, so that no job is started that this list lacks.
    with Notice() as notice, notice.held():
        try:
            while waiting or running:
                free = sorted(set(range(slots)) - {run.slot for run in running.values()})
                for slot in free[: len(waiting)]:
                    job = waiting.pop(0)
                    process = start(job, _share(_cores(), slot, slots), _share(gpus, slot, slots))
                    running[job.name] = _Running(process, slot, time.monotonic())
                    started(job)
                time.sleep(POLL)
                # Before the jobs are looked at: whoever ends everything ends them, too, and they
                # haven't failed.
                notice.check()
                for name, (process, _, began) in list(running.items()):
                    status = process.poll()
                    if status is not None:
                        del running[name]
                        yield Ended(name, status, time.monotonic() - began)
        finally:
            stop([run.process for run in running.values()])


def run_slurm(
    jobs: Sequence[Job],
    folder: Path,
    parallel: int,
    parameters: Mapping[str, Any],
    started: Callable[[Job], None],
    cluster: str = "slurm",
) -> Iterator[Ended]:
    """Runs the jobs as one array of Slurm jobs, through submitit, and waits for them.

    Args:
      jobs: at least one.
      folder: for what submitit and Slurm write; seen by all nodes, as the workdirs are.
      parallel: how many run at once; 0: as many as Slurm lets.
      parameters: of the jobs, in submitit's names, as `timeout_min`, `gpus_per_node`,
        `slurm_partition`.
      started: told of each job that is submitted.
      cluster: `slurm`, or `local` for processes on this machine, as tests want.

    Yields:
      The jobs as they end. Leaving early cancels the others, which save if Slurm's KillWait lets
      them.

    Raises:
      InputError: submitit isn't installed, there is no Slurm here, or a parameter is unknown.
      Stopped: a signal asked for it; the jobs that ran or waited are cancelled.
    """
    try:
        import submitit
    except ImportError:
        raise InputError(
            '--executor=slurm needs submitit; pip install "bahdanau_jax[slurm]"'
        ) from None
    # Held, so that no job is submitted that this list lacks.
    with Notice() as notice, notice.held():
        try:
            executor = submitit.AutoExecutor(folder=folder / "%j", cluster=cluster)
            limit = {"slurm_array_parallelism": parallel} if parallel else {}
            executor.update_parameters(name="bahdanau_jax", **limit, **parameters)
            with executor.batch():
                pending = {
                    job.name: executor.submit(SlurmCell(job.command, str(job.directory / LOG)))
                    for job in jobs
                }
        except (RuntimeError, NameError, TypeError) as error:
            raise InputError(f"--executor=slurm: {flat(error)}") from error
        try:
            for job in jobs:
                started(job)
            began = time.monotonic()
            while pending:
                notice.check()
                for name, job in list(pending.items()):
                    if not job.done():
                        continue
                    del pending[name]
                    # A job that was killed leaves no result; submitit raises when asked for it.
                    status = 1 if job.exception() is not None else job.result()
                    yield Ended(name, status, time.monotonic() - began)
                time.sleep(POLL if cluster == "local" else 1.0)
        finally:
            _cancel(pending)


def _cancel(pending: Mapping[str, Any]) -> None:
    """Cancels submitted jobs; says which ones couldn't be."""
    for name, job in pending.items():
        try:
            job.cancel()
        except (OSError, subprocess.CalledProcessError) as error:
            say(f"{name} runs on as job {job.job_id} of Slurm ({flat(error)}); scancel it")


class SlurmCell:
    """A cell as submitit pickles it; it goes on from its checkpoint after a preemption."""

    def __init__(self, command: list[str], log: str):
        self._command, self._log = command, log

    def __call__(self) -> int:
        """Runs the command on the node, and returns its exit status."""
        Path(self._log).parent.mkdir(parents=True, exist_ok=True)
        with open(self._log, "ab") as log:
            return subprocess.run(self._command, stdout=log, stderr=log, check=False).returncode

    def checkpoint(self) -> Any:
        """Called by submitit when Slurm preempts the job: the same command, submitted again."""
        import submitit

        return submitit.helpers.DelayedSubmission(self)


def command_line(command: Sequence[str]) -> str:
    """Returns a command as a shell reads it."""
    return shlex.join(command)


def visible_gpus() -> list[str]:
    """Returns the GPUs that processes started here may use, as CUDA_VISIBLE_DEVICES names them."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name for name in chosen.split(",") if name]
    if os.environ.get("JAX_PLATFORMS") == "cpu":
        return []
    # Not by asking JAX: that would take most of every GPU's memory for this process.
    return sorted(path.name.removeprefix("nvidia") for path in Path("/dev").glob("nvidia[0-9]*"))


def last_line(log: Path) -> str:
    """Returns the last line of a log that says something, for a person to see why a cell failed."""
    try:
        with open_regular(log) as stream:
            stream.seek(max(stream.seek(0, os.SEEK_END) - 4000, 0))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def start(job: Job, cores: list[str], gpus: list[str]) -> subprocess.Popen:
    """Starts a job's process, which ends with this one.

    Args:
      job: what to run; its log goes on where it ended.
      cores: that it may use; empty for all.
      gpus: the same.
    """
    job.directory.mkdir(parents=True, exist_ok=True)
    environment = os.environ | ({"CUDA_VISIBLE_DEVICES": ",".join(gpus)} if gpus else {})
    with (job.directory / LOG).open("ab") as log:
        # A session of its own: an interrupt at the terminal comes from here, once.
        return subprocess.Popen(
            [sys.executable, str(SHARE), ",".join(cores), *job.command],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )


def stop(processes: list[subprocess.Popen]) -> None:
    """Tells processes to save and end, and waits for it; ends those that don't."""
    for process in processes:
        process.terminate()
    until = time.monotonic() + PATIENCE
    for process in processes:
        try:
            process.wait(max(until - time.monotonic(), 0.1))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _cores() -> list[str]:
    if not hasattr(os, "sched_getaffinity"):
        return []
    return [str(core) for core in sorted(os.sched_getaffinity(0))]


def _share(whole: list[str], slot: int, slots: int) -> list[str]:
    """Returns one slot's part of cores or GPUs: all of them go to some slot, none to two."""
    if slots == 1:
        return whole
    part = whole[slot * len(whole) // slots : (slot + 1) * len(whole) // slots]
    # With more slots than parts, several share one.
    return part or whole[slot % len(whole) :][:1] if whole else []
