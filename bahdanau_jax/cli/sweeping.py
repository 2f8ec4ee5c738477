"""What `--sweep`, `--tune` and `--replicas` start: many runs from one command line.

The process that starts a sweep's cells computes nothing itself, and imports no JAX for it.
"""

import itertools
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from bahdanau_jax.cli.checks import check_given
from bahdanau_jax.cli.command_line import CommandLine
from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import Value, with_values
from bahdanau_jax.runtime import setup
from bahdanau_jax.sweeps import executors, sweep
from bahdanau_jax.sweeps.executors import Ended, Job
from bahdanau_jax.sweeps.grid import MOST_CELLS, Cell, expand
from bahdanau_jax.sweeps.search_space import Choice, Space, parse_space
from bahdanau_jax.terminal import say, visible
from bahdanau_jax.validation import validate
from bahdanau_jax.workdir import directory as workdir


def wanted(line: CommandLine) -> bool:
    """Returns whether a command line asks for several runs."""
    return any(line.values[name] for name in ("sweep", "tune", "replicas"))


def start(line: CommandLine, command: Sequence[str], compare: str) -> int:
    """Runs what a command line asks for.

    Args:
      line: with one of `--sweep`, `--tune` and `--replicas`.
      command: what runs the configuration that the cells share; a cell's flags go behind it.
      compare: the command that compares the cells, as a user types it.

    Returns:
      The exit status: 1 if a cell failed, when the others have ended.

    Raises:
      InputError: a flag or a cell is wrong, and nothing was started.
    """
    if (line.directory / workdir.CONFIG).exists():
        raise InputError(f"{line.directory} holds a run; choose another --workdir for the sweep")
    if line.values["tune"]:
        return _tune(line, command)
    failed = _train_replicas(line) if line.values["replicas"] else _sweep(line, command)
    if failed is None:
        return 0
    say(f"compare them by: {compare}")
    return 1 if failed else 0


def _sweep(line: CommandLine, command: Sequence[str]) -> list[str] | None:
    """Returns the names of the cells that failed; None where none was to be run."""
    flag, sweeps = line.values, line.experiment.sweeps
    cells = expand(line.config(), flag["sweep"], sweeps, paired=flag["zip"])
    _check_cells(line, cells)
    cells, notes = _match(cells, flag["match"])
    for note in notes:
        say(note)
    run = _executor(line)
    if flag["dry_run"]:
        sweep.print_commands(line.directory, cells, command, sys.stdout)
        return None
    return sweep.sweep(line.directory, cells, command, run, say, notes)


def _train_replicas(line: CommandLine) -> list[str]:
    base, flag = line.config(), line.values
    texts = [_seeds(base.seed, text) for text in flag["replicas"]]
    cells = expand(base, texts, line.experiment.sweeps, paired=flag["zip"], flag="--replicas")
    # A number of replicas begins with the seed that is given.
    counted = any(new != old for new, old in zip(texts, flag["replicas"], strict=True))
    _check_cells(line, cells, {"seed"} if counted else set())
    # Only here, since it imports JAX.
    from bahdanau_jax.sweeps.replicas import train_replicas

    setup.configure(deterministic=flag["deterministic"])
    origin = flag["init_from"] and Path(flag["init_from"])
    return train_replicas(line.directory, cells, line.overrides(), origin, line.experiment.source)


def _check_cells(line: CommandLine, cells: Sequence[Cell], begun: Iterable[str] = ()) -> None:
    swept = {path for cell in cells for path in cell.values}
    check_given(line, [cell.config for cell in cells], swept - ({*begun} & {*line.fields}))


def _tune(line: CommandLine, command: Sequence[str]) -> int:
    # Only here, since they import JAX or sacreBLEU.
    from bahdanau_jax.evaluation.metrics import higher_is_better
    from bahdanau_jax.sweeps import tuning

    config, space = line.config(), parse_space(line.values["tune"])
    check_given(line, _corners(config, space), space)
    metric = tuning.metric_of(line.values["metric"], config, space)
    what = tuning.Tuning(config, space, metric, higher_is_better(metric), line.values["trials"])
    trials = tuning.tune(line.directory, what, command, say)
    print(visible(tuning.table(trials, metric)))
    return 0 if any(trial.state == "complete" for trial in trials) else 1


def _corners(base: Config, space: Space) -> list[Config]:
    """Returns a valid configuration for each combination of choices, ranges at their low ends.

    Raises:
      InputError: no combination is valid; says why the first isn't.
    """
    listed: list[list[Value]] = [
        what.values if isinstance(what, Choice) else [int(what.low) if what.whole else what.low]
        for what in space.values()
    ]
    valid, wrong = [], None
    for values in itertools.islice(itertools.product(*listed), MOST_CELLS):
        config = with_values(base, dict(zip(space, values, strict=True)))
        try:
            validate(config)
        except InputError as error:
            wrong = wrong or error
        else:
            valid.append(config)
    if not valid and wrong is not None:
        raise InputError(f"--tune: no trial can be run: {wrong}")
    return valid


def _seeds(first: int, text: str) -> str:
    """Returns a number of replicas as the seeds that they get; anything else as it is."""
    if not re.fullmatch("-?[0-9]+", text):
        return text
    if int(text) < 1:
        raise InputError(f"--replicas={text}: give at least 1, or FIELD=v1,v2,…")
    return f"seed={first}..{first + int(text) - 1}"


def _match(cells: list[Cell], how: str | None) -> tuple[list[Cell], list[str]]:
    if how is None:
        return cells, []
    # Only here, since it imports JAX.
    from bahdanau_jax.sweeps.matching import match_parameters

    matched, matches = match_parameters(cells, how, say)
    return matched, [match.sentence() for match in matches]


def _executor(
    line: CommandLine,
) -> Callable[[Sequence[Job], Callable[[Job], None]], Iterable[Ended]]:
    parallel, parameters = line.values["parallel"], _parameters(line.values["slurm"])
    if line.values["executor"] == "local":
        return lambda jobs, started: executors.run_local(jobs, parallel, started)
    folder = line.directory / "slurm"
    return lambda jobs, started: executors.run_slurm(jobs, folder, parallel, parameters, started)


def _parameters(given: Sequence[str]) -> dict[str, str | int]:
    """Reads `timeout_min=60`; what looks like a whole number is one."""
    parameters = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--slurm={text} must be NAME=VALUE, as timeout_min=60")
        parameters[name] = int(value) if value.isdecimal() else value
    return parameters
