"""The flags of sweeps and of the tuner, and what they start."""

import re
import runpy
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from absl import flags
from ml_collections import config_flags

from bahdanau_jax.cli import recorded
from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError
from bahdanau_jax.sweeps import executors
from bahdanau_jax.sweeps.executors import Ended, Job
from bahdanau_jax.sweeps.grid import SWEEPS, Cell, expand
from bahdanau_jax.terminal import say
from bahdanau_jax.workdir import directory as workdir

SWEEP = flags.DEFINE_multi_string(
    "sweep",
    [],
    "Runs every value: FIELD=v1,v2,… or FIELD=1e-4..1e-2:log5, or @NAME for a sweep of the "
    "experiment file. Given several times: all combinations.",
)
ZIP = flags.DEFINE_bool("zip", False, "Pair the values of several --sweep; don't combine them.")
MATCH = flags.DEFINE_string(
    "match", None, "params: size a sweep's cells to the parameters of the first; params:FIELD."
)
EXECUTOR = flags.DEFINE_enum("executor", "local", ("local", "slurm"), "Where a sweep's cells run.")
PARALLEL = flags.DEFINE_integer(
    "parallel", 0, "Cells of a sweep at once; 0: as many as GPUs, or one.", lower_bound=0
)
SLURM = flags.DEFINE_multi_string(
    "slurm", [], "Parameter of Slurm's jobs, in submitit's names, as timeout_min=60."
)
DRY_RUN = flags.DEFINE_bool("dry_run", False, "Print a sweep's command lines; run none.")
TUNE = flags.DEFINE_multi_string(
    "tune",
    [],
    "Searches for a good value: FIELD=low..high, FIELD=low..high:log or FIELD=v1,v2,…",
)
TRIALS = flags.DEFINE_integer("trials", 20, "Trials of --tune, over all processes.", lower_bound=1)
METRIC = flags.DEFINE_string(
    "metric", None, "What --tune goes by, as dev/wer; by default dev/ and train.metric."
)
REPLICAS = flags.DEFINE_multi_string(
    "replicas",
    [],
    "Trains several runs in one program: a number of seeds, or FIELD=v1,v2,… of a numeric field.",
)

# Flags that concern a sweep as a whole; all others that are given go to its cells.
OWN = ("sweep", "zip", "match", "executor", "parallel", "slurm", "dry_run", "workdir", "mode")
OWN += ("tune", "trials", "metric", "replicas")


def wanted() -> bool:
    """Returns whether the command line asks for a sweep."""
    given = [flag.name for flag in (SWEEP, TUNE, REPLICAS) if flag.value]
    if len(given) > 1:
        raise InputError(f"--{' and --'.join(given)} can't be given together; choose one")
    if REPLICAS.value and (MATCH.value or DRY_RUN.value):
        raise InputError("--replicas is one program: it has no --match and no --dry_run")
    if given:
        return True
    for flag in (ZIP, MATCH, SLURM, DRY_RUN):
        if flag.value:
            raise InputError(f"--{flag.name} belongs to a sweep; give --sweep=FIELD=v1,v2,… too")
    return False


def start(
    config: Config, directory: Path, launch: Path, overrides: Sequence[str], prepare: Callable
) -> None:
    """Runs the sweep that the flags describe.

    Args:
      config: what the cells share, not validated: only the cells have to be valid.
      directory: the sweep's workdir.
      launch: the path of launch.py.
      overrides: the fields given by flags, as `seed=1`.
      prepare: called before this process computes itself.

    Raises:
      InputError: a flag or a cell is wrong, and nothing was started.
      SystemExit: with status 1, when the others have ended, if a cell failed.
    """
    # Below the flags, so that their help doesn't wait for it.
    from bahdanau_jax.sweeps import sweep

    if (directory / workdir.CONFIG).exists():
        raise InputError(f"{directory} holds a run; choose another --workdir for the sweep")
    if TUNE.value:
        _tune(config, directory, launch)
        return
    if REPLICAS.value:
        prepare()
        _train_replicas(config, directory, overrides)
        return
    cells = expand(config, SWEEP.value, _named_sweeps(), paired=ZIP.value)
    cells, notes = _match(cells)
    for note in notes:
        say(note)
    command = _base_command(launch)
    if DRY_RUN.value:
        sweep.print_commands(directory, cells, command, sys.stdout)
        return
    failed = sweep.sweep(directory, cells, command, _executor(directory), say, notes)
    say(f"compare them by: python launch.py --mode=compare --workdir={directory}")
    if failed:
        sys.exit(1)


def _tune(config: Config, directory: Path, launch: Path) -> None:
    from bahdanau_jax.evaluation.metrics import higher_is_better
    from bahdanau_jax.sweeps import tuning

    space = tuning.parse_space(TUNE.value)
    metric = tuning.metric_of(METRIC.value, config)
    what = tuning.Tuning(config, space, metric, higher_is_better(metric), TRIALS.value)
    trials = tuning.tune(directory, what, _base_command(launch), say)
    print(tuning.table(trials, metric))
    if not any(trial.state == "complete" for trial in trials):
        sys.exit(1)


def _train_replicas(config: Config, directory: Path, overrides: Sequence[str]) -> None:
    from bahdanau_jax.sweeps.replicas import train_replicas

    cells = expand(
        config,
        [_seeds(config.seed, text) for text in REPLICAS.value],
        _named_sweeps(),
        paired=ZIP.value,
        flag="--replicas",
    )
    failed = train_replicas(directory, cells, overrides)
    say(f"compare them by: python launch.py --mode=compare --workdir={directory}")
    if failed:
        sys.exit(1)


def _seeds(first: int, text: str) -> str:
    """Returns a number of replicas as the seeds that they get; anything else as it is."""
    if not re.fullmatch("-?[0-9]+", text):
        return text
    if int(text) < 1:
        raise InputError(f"--replicas={text}: give at least 1, or FIELD=v1,v2,…")
    return f"seed={first}..{first + int(text) - 1}"


def _match(cells: list[Cell]) -> tuple[list[Cell], list[str]]:
    if not MATCH.value:
        return cells, []
    from bahdanau_jax.sweeps.matching import match_parameters

    matched, matches = match_parameters(cells, MATCH.value, say)
    return matched, [match.sentence() for match in matches]


def _named_sweeps() -> dict[str, Any]:
    """Returns what the experiment file offers by name."""
    experiment = config_flags.get_config_filename(flags.FLAGS["config"])
    if experiment.startswith(recorded.PREFIX):
        return {}
    return runpy.run_path(experiment.partition(":")[0]).get(SWEEPS, {})


def _executor(
    directory: Path,
) -> Callable[[Sequence[Job], Callable[[Job], None]], Iterable[Ended]]:
    if EXECUTOR.value == "local":
        return lambda jobs, started: executors.run_local(jobs, PARALLEL.value, started)
    parameters = _parameters(SLURM.value)
    return lambda jobs, started: executors.run_slurm(
        jobs, directory / "slurm", PARALLEL.value, parameters, started
    )


def _parameters(given: Sequence[str]) -> dict[str, str | int]:
    """Reads `timeout_min=60`; what looks like a whole number is one."""
    parameters = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--slurm={text} must be NAME=VALUE, as timeout_min=60")
        parameters[name] = int(value) if value.isdecimal() else value
    return parameters


def _base_command(launch: Path) -> list[str]:
    """Returns the command that every cell's flags are added to: all flags given but a sweep's."""
    given = [flag for flag in flags.FLAGS._flags().values() if flag.present]
    lines = [line for flag in given if flag.name not in OWN for line in _lines(flag)]
    return [sys.executable, str(launch), *dict.fromkeys(lines)]


def _lines(flag: flags.Flag) -> list[str]:
    """Returns a flag as it was given: a line for each of its values."""
    return [line.replace(f"={recorded.PREFIX}", "=") for line in flag.serialize().splitlines()]
