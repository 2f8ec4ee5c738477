"""Searching for good values of fields: trials that Optuna proposes, stopped where hopeless.

    W/trials.log               Optuna's journal, which several processes share
    W/learning_rate=0.0031/    the workdir of a trial, as of a sweep's cell

What there is to choose from:

    train.learning_rate=1e-4..1e-2:log    a number, evenly likely by its logarithm
    train.dropout.readout=0..0.5          a number; a whole one where the field has whole ones
    model.attention.score=additive,dot    one of a list

Akiba et al. 2019, "Optuna: A Next-generation Hyperparameter Optimization Framework".
"""

import contextlib
import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import (
    Value,
    check_finite,
    field_type,
    parse_field,
    parse_value,
    resolve,
)
from bahdanau_jax.stored_files import refuse_strange_files
from bahdanau_jax.sweeps import executors, sweep
from bahdanau_jax.sweeps.executors import LOG, Job
from bahdanau_jax.sweeps.grid import Cell, cell
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir.metrics_log import read_metrics

JOURNAL = "trials.log"
LOCKS = ".trials"  # directories whose locks say which trials somebody works on
STUDY = "bahdanau_jax"
STARTUP = 5  # trials before any is pruned
LOOK = 0.5  # seconds between two looks at a trial's metrics


class Range(NamedTuple):
    """Numbers from low to high, both included."""

    low: float
    high: float
    logarithmic: bool
    whole: bool


class Choice(NamedTuple):
    """One of some values."""

    values: list[Value]


Space = dict[str, Range | Choice]  # by the field's path


class Tuning(NamedTuple):
    """What a tuner does.

    Attributes:
      base: the configuration that the trials share.
      space: the fields that are tuned.
      metric: of metrics.jsonl, as `dev/wer`; its best value counts.
      higher_is_better: of the metric.
      trials: how many, over all processes, those that were pruned or failed among them.
    """

    base: Config
    space: Space
    metric: str
    higher_is_better: bool
    trials: int


class Trial(NamedTuple):
    """A finished trial."""

    name: str
    state: str  # complete | pruned | fail
    value: float  # NaN without one


def parse_space(texts: list[str]) -> Space:
    """Reads every `--tune`.

    Raises:
      InputError: a field doesn't exist or occurs twice, or what it may be can't be read.
    """
    space: Space = {}
    for text in texts:
        path, what = _parse_field(text)
        if path in space:
            raise InputError(f"--tune: {path} is tuned twice; give all that it may be at once")
        space[path] = what
    return space


def tune(
    directory: Path, tuning: Tuning, command: Sequence[str], say: Callable[[str], None]
) -> list[Trial]:
    """Runs trials until there are enough; several processes may do so at once.

    A trial that a killed process left behind is taken up again, from its checkpoint.

    Args:
      directory: the tuner's workdir; made if absent.
      tuning: what to do.
      command: what runs the base configuration; a trial's flags go behind it.
      say: told what happens.

    Returns:
      All finished trials, the best first.

    Raises:
      InputError: Optuna isn't installed, or the journal is of other fields.
    """
    workdir.make(directory)
    refuse_strange_files(directory)
    try:
        storage = _storage(directory)
        study = _study(storage, tuning)
        _check_space(study, tuning.space)
    except (InputError, OSError):
        raise
    except Exception as error:  # whatever Optuna stumbles over in a damaged journal
        raise InputError(
            f"{directory / JOURNAL}: can't be read ({type(error).__name__}); bring back a copy, or "
            "move it away and tune anew: finished cells stay as they are"
        ) from error
    while (asked := _ask(study, storage, directory, tuning)) is not None:
        trial, lock = asked
        with lock:
            _run(study, trial, directory, tuning, command, say)
    finished = [
        Trial(str(t.user_attrs.get("cell", t.number)), t.state.name.lower(), _value(t.value))
        for t in study.get_trials(deepcopy=False)
        if t.state.is_finished()
    ]
    sign = -1 if tuning.higher_is_better else 1
    return sorted(finished, key=lambda t: (t.state != "complete", sign * t.value, t.name))


def _storage(directory: Path) -> Any:
    try:
        import optuna
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise InputError('--tune needs Optuna; pip install "bahdanau_jax[tune]"') from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna.storages.JournalStorage(JournalFileBackend(str(directory.absolute() / JOURNAL)))


def _study(storage: Any, tuning: Tuning) -> Any:
    import optuna

    return optuna.create_study(
        study_name=STUDY,
        storage=storage,
        direction="maximize" if tuning.higher_is_better else "minimize",
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP),
        load_if_exists=True,
    )


def _check_space(study: Any, space: Space) -> None:
    for trial in study.get_trials(deepcopy=False):
        if trial.params and set(trial.params) != set(space):
            raise InputError(
                f"{JOURNAL} there is of {', '.join(sorted(trial.params))}; tune the same fields, "
                "or choose another --workdir"
            )


def _ask(
    study: Any, storage: Any, directory: Path, tuning: Tuning
) -> tuple[Any, contextlib.AbstractContextManager] | None:
    """Returns a trial to run and its lock: one that was left behind, or a new one."""
    import optuna

    with _waiting_lock(directory / LOCKS / "ask"):
        known = study.get_trials(deepcopy=False)
        for frozen in known:
            if frozen.state == optuna.trial.TrialState.RUNNING:
                stack = contextlib.ExitStack()
                try:
                    stack.enter_context(workdir.lock(directory / LOCKS / str(frozen.number)))
                except InputError:
                    continue  # somebody works on it
                study_id = storage.get_study_id_from_name(STUDY)
                trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, frozen.number)
                return optuna.trial.Trial(study, trial_id), stack
        if len(known) >= tuning.trials:
            return None
        trial = study.ask()
        stack = contextlib.ExitStack()
        stack.enter_context(workdir.lock(directory / LOCKS / str(trial.number)))
        return trial, stack


@contextlib.contextmanager
def _waiting_lock(directory: Path) -> Iterator[None]:
    """Holds a lock that others hold for moments only."""
    while True:
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(workdir.lock(directory))
            except InputError:
                time.sleep(0.05)
                continue
            yield
            return


def _run(
    study: Any,
    trial: Any,
    directory: Path,
    tuning: Tuning,
    command: Sequence[str],
    say: Callable[[str], None],
) -> None:
    """Runs one trial to its end, or until it is hopeless, and tells the study."""
    import optuna

    states = optuna.trial.TrialState
    # A seed for each trial: processes that start together would draw the same values from one.
    study.sampler = optuna.samplers.TPESampler(seed=tuning.base.seed + trial.number)
    values = suggest(trial, tuning.space)
    mark = f"[trial {trial.number + 1} of {tuning.trials}]"
    try:
        made = cell(tuning.base, values, list(tuning.space))
    except InputError as error:
        say(f"{mark} {error}")
        study.tell(trial, state=states.FAIL)
        return
    trial.set_user_attr("cell", made.name)
    with _waiting_lock(directory):
        sweep.list_cells(directory, [made], [])
    say(f"{mark} {made.name} begins")
    pruned, status = _train(trial, made, directory, tuning, command)
    best = _best(_evaluations(directory / made.name, tuning.metric), tuning.higher_is_better)
    if pruned:
        say(f"{mark} {made.name} is stopped: {tuning.metric} {best:.4g} at its best is hopeless")
        study.tell(trial, state=states.PRUNED)
    elif status == 0 and math.isfinite(best):
        say(f"{mark} {made.name} finished with {tuning.metric} {best:.4g}")
        study.tell(trial, best)
    else:
        why = executors.last_line(directory / made.name / LOG)
        if status == 0:
            known = sorted({n for line in read_metrics(directory / made.name) for n in line})
            why = f"there is no {tuning.metric} in its metrics.jsonl, but {', '.join(known)}"
        sweep.write_failure(directory / made.name, status, why)
        say(f"{mark} {made.name} FAILED: {why}")
        study.tell(trial, state=states.FAIL)


def _train(
    trial: Any, made: Cell, directory: Path, tuning: Tuning, command: Sequence[str]
) -> tuple[bool, int]:
    """Trains a trial's model; returns whether it was pruned, and the exit status."""
    place = directory / made.name
    if sweep.is_finished(place):
        return False, 0
    job = Job(made.name, sweep.cell_command(command, made, directory), place)
    process = executors.start(job, [], [])
    reported = 0
    try:
        while True:
            status = process.poll()
            evaluations = _evaluations(place, tuning.metric)
            for step, value in evaluations[reported:]:
                trial.report(value, step)
            if len(evaluations) > reported and status is None and trial.should_prune():
                return True, 0
            reported = len(evaluations)
            if status is not None:
                return False, status
            time.sleep(LOOK)
    finally:
        executors.stop([process])


def _evaluations(directory: Path, metric: str) -> list[tuple[int, float]]:
    """Returns (step, value) of the metric, as far as the run has come."""
    try:
        lines = read_metrics(directory)
    except InputError:
        return []
    values = {line["step"]: line.get(metric) for line in lines}
    return [(step, float(v)) for step, v in values.items() if isinstance(v, int | float)]


def _best(evaluations: list[tuple[int, float]], higher_is_better: bool) -> float:
    values = [value for _, value in evaluations if math.isfinite(value)]
    return (max if higher_is_better else min)(values, default=math.nan)


def _value(value: float | None) -> float:
    return math.nan if value is None else value


def suggest(trial: Any, space: Space) -> dict[str, Value]:
    """Asks a trial for a value of every field.

    Args:
      trial: Optuna's.
      space: what there is to choose from.

    Returns:
      Values by field; numbers to four digits, so that a workdir's name can say them.
    """
    values: dict[str, Value] = {}
    for path, what in space.items():
        if isinstance(what, Choice):
            values[path] = trial.suggest_categorical(path, what.values)
        elif what.whole:
            low, high = int(what.low), int(what.high)
            values[path] = trial.suggest_int(path, low, high, log=what.logarithmic)
        else:
            value = trial.suggest_float(path, what.low, what.high, log=what.logarithmic)
            values[path] = float(f"{value:.4g}")
    return values


def _parse_field(text: str) -> tuple[str, Range | Choice]:
    name, _, listed = text.partition("=")
    limits = re.fullmatch(r"([^,]+?)\.\.([^,]+?)(:log)?", listed)
    path = resolve(name.removeprefix("config."), "--tune")
    kind = field_type(path)
    if limits is None or kind not in (int, float):
        return path, Choice(parse_field(text, "--tune")[1])
    low, high = (parse_value(number, path, f"--tune={text}") for number in limits.groups()[:2])
    assert isinstance(low, int | float) and isinstance(high, int | float)
    check_finite(low, high, f"--tune={text}")
    if not low < high:
        raise InputError(f"--tune={text}: {limits[1]} must be below {limits[2]}")
    if limits[3] and low <= 0:
        raise InputError(f"--tune={text}: a logarithmic range begins above 0")
    return path, Range(low, high, limits[3] is not None, kind is int)


def table(trials: Sequence[Trial], metric: str) -> str:
    """Returns the trials as a Markdown table, the best first."""
    lines = [f"| trial | {metric} | state |", "|---|---:|---|"]
    for name, state, value in trials:
        shown = "" if math.isnan(value) else f"{value:.4g}"
        lines.append(f"| {name} | {shown} | {state} |")
    return "\n".join(lines)


def metric_of(text: str | None, config: Config) -> str:
    """Returns the metric to tune by: the given one, or the one that chooses checkpoints.

    Raises:
      InputError: it is no name of a figure, or no direction of it is the better one.
    """
    # Only here: whatever the command line asks for, this file is imported before it is read.
    from bahdanau_jax.evaluation.metrics import direction

    metric = text or f"dev/{config.train.metric}"
    if metric.count("/") != 1:
        raise InputError(f"--metric must be a name of metrics.jsonl, as dev/wer; it is {text!r}")
    if direction(metric) not in ("higher", "lower"):
        raise InputError(
            f"--metric={metric}: neither more nor less of it is better, as far as is known; tune "
            f"by a figure of quality, as dev/{config.train.metric}"
        )
    return metric
