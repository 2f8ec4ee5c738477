"""Searching for good values of fields: trials that Optuna proposes, stopped where hopeless.

    W/tuning.json              what is looked for; see `tuning_record`
    W/trials.log               Optuna's journal, which several processes share
    W/learning_rate=0.0031/    the workdir of a trial, as of a sweep's cell

Akiba et al. 2019, "Optuna: A Next-generation Hyperparameter Optimization Framework".
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from bahdanau_jax.config import Config
from bahdanau_jax.errors import InputError
from bahdanau_jax.fields import to_dict
from bahdanau_jax.runtime.signals import Notice
from bahdanau_jax.stored_files import refuse_strange_files
from bahdanau_jax.sweeps import executors, sweep, tuning_record
from bahdanau_jax.sweeps.executors import LOG, Job
from bahdanau_jax.sweeps.grid import Cell, cell
from bahdanau_jax.sweeps.search_space import Choice, Space, suggest
from bahdanau_jax.workdir import directory as workdir
from bahdanau_jax.workdir.metrics_log import read_metrics

JOURNAL = "trials.log"
LOCKS = ".trials"  # directories whose locks say which trials somebody works on
STUDY = "bahdanau_jax"
STARTUP = 5  # trials before any is pruned
TOKENS_FROM = ("data.vocabulary.", "data.lowercase")  # fields that decide what a token is
LOOK = 0.5  # seconds between two looks at a trial's metrics


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

    @property
    def direction(self) -> Literal["minimize", "maximize"]:
        """Which way the metric is to go, in Optuna's word."""
        return "maximize" if self.higher_is_better else "minimize"

    def record(self) -> dict[str, Any]:
        """Returns what all starts of a search have in common, as `tuning_record` keeps it."""
        space = {path: what._asdict() for path, what in self.space.items()}
        base = to_dict(self.base)
        return {
            "metric": self.metric,
            "direction": self.direction,
            "space": space,
            "base": base,
        }


class Trial(NamedTuple):
    """A finished trial."""

    name: str
    state: str  # complete | pruned | fail
    value: float  # NaN without one


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
      InputError: Optuna isn't installed, or the workdir holds another search.
      Stopped: a signal asked for it; the trial that ran has saved and ended, and is taken up again.
    """
    workdir.make(directory)
    refuse_strange_files(directory)
    with _waiting_lock(directory / LOCKS / "ask"):
        known = tuning_record.check(directory, tuning.record())
        try:
            storage = _storage(directory)
            study = _study(storage, tuning)
            if not known:
                _check_journal(study, tuning)
        except (InputError, OSError):
            raise
        except Exception as error:  # whatever Optuna stumbles over in a damaged journal
            raise InputError(
                f"{directory / JOURNAL}: can't be read ({type(error).__name__}); bring back a "
                "copy, or move it away and tune anew: finished cells stay as they are"
            ) from error
        if not known:
            tuning_record.write(directory, tuning.record())
    # Held, so that the journal is written whole; what waits raises.
    with Notice() as notice, notice.held():
        while (asked := _ask(study, storage, directory, tuning)) is not None:
            trial, lock = asked
            with lock:
                _run(study, trial, directory, tuning, command, say, notice)
            notice.check()
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
        direction=tuning.direction,
        pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP),
        load_if_exists=True,
    )


def _check_journal(study: Any, tuning: Tuning) -> None:
    """Checks a journal of a version that kept nothing else of its search."""
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.params]
    if trials and study.direction.name.lower() != tuning.direction:
        raise InputError(
            f"{JOURNAL} there is of a metric to {study.direction.name.lower()}; tune by the same "
            "one, or choose another --workdir"
        )
    for trial in trials:
        if set(trial.params) != set(tuning.space):
            raise InputError(
                f"{JOURNAL} there is of {', '.join(sorted(trial.params))}; tune the same fields, "
                "or choose another --workdir"
            )
        for path, what in tuning.space.items():
            choices = getattr(trial.distributions[path], "choices", None)
            values = tuple(what.values) if isinstance(what, Choice) else None
            if choices != values:
                raise InputError(
                    f"{JOURNAL} there has other values of {path}; give the same ones, or choose "
                    "another --workdir"
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
                except workdir.BusyError:
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
            except workdir.BusyError:
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
    notice: Notice,
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
    # Another tuner may have drawn the same values, or somebody may train there by hand.
    with contextlib.ExitStack() as stack:
        with notice.raising():
            stack.enter_context(_waiting_lock(directory / LOCKS / made.name))
        pruned, status = _train_alone(trial, made, directory, tuning, command, mark, say, notice)
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


def _train_alone(
    trial: Any,
    made: Cell,
    directory: Path,
    tuning: Tuning,
    command: Sequence[str],
    mark: str,
    say: Callable[[str], None],
    notice: Notice,
) -> tuple[bool, int]:
    """Trains as `_train`, once no other process trains in the same workdir."""
    while True:
        with notice.raising():
            sweep.wait_for(directory / made.name, say)
        say(f"{mark} {made.name} begins")
        pruned, status = _train(trial, made, directory, tuning, command, notice)
        if status == 0 or not workdir.is_busy(directory / made.name):
            return pruned, status


def _train(
    trial: Any,
    made: Cell,
    directory: Path,
    tuning: Tuning,
    command: Sequence[str],
    notice: Notice,
) -> tuple[bool, int]:
    """Trains a trial's model; returns whether it was pruned, and the exit status."""
    place = directory / made.name
    if sweep.is_finished(place):
        return False, 0
    job = Job(made.name, sweep.cell_command(command, made, directory), place)
    process = executors.start(job, [], [])
    # Of a trial that is taken up again, the study knows some already.
    reported = set(trial.study.get_trials(deepcopy=False)[trial.number].intermediate_values)
    try:
        while True:
            status = process.poll()
            # Whoever ends everything ends the trial's process, too, and it hasn't failed.
            notice.check()
            evaluations = _evaluations(place, tuning.metric)
            new = [(step, value) for step, value in evaluations if step not in reported]
            for step, value in new:
                trial.report(value, step)
            if new and status is None and trial.should_prune():
                return True, 0
            reported.update(step for step, _ in new)
            if status is not None:
                return False, status
            with notice.raising():
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


def table(trials: Sequence[Trial], metric: str) -> str:
    """Returns the trials as a Markdown table, the best first."""
    lines = [f"| trial | {metric} | state |", "|---|---:|---|"]
    for name, state, value in trials:
        shown = "" if math.isnan(value) else f"{value:.4g}"
        lines.append(f"| {name} | {shown} | {state} |")
    return "\n".join(lines)


def metric_of(text: str | None, config: Config, searched: Iterable[str] = ()) -> str:
    """Returns the metric to tune by: the given one, or the one that chooses checkpoints.

    Args:
      text: the given one, None where none is.
      config: of the trials.
      searched: paths of the fields that trials differ in.

    Raises:
      InputError: it is no name of a figure, no direction of it is the better one, or it isn't the
        same figure in all trials.
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
    of_vocabulary = [path for path in searched if path.startswith(TOKENS_FROM)]
    if of_vocabulary and metric.endswith(("/nll_per_token", "/perplexity")):
        raise InputError(
            f"{metric} counts by token, and the trials' tokens differ by {of_vocabulary[0]}; tune "
            "by a figure of the text, as --metric=dev/bleu or --metric=dev/wer"
        )
    return metric
