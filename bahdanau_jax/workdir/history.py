"""Whether a run that was begun still has what it left: checkpoints and metrics.

Training begins where there is no checkpoint, and drops the lines of metrics behind the one that it
goes on from. So what somebody lost must be told before it is overwritten.
"""

from pathlib import Path

from bahdanau_jax.errors import InputError, RunError
from bahdanau_jax.workdir import manifest, metrics_log
from bahdanau_jax.workdir.checkpoints import Checkpoints
from bahdanau_jax.workdir.metrics_log import METRICS, RESULT, read_metrics

# Training ends after three saves in a row that fail. So a run that is past its fourth had one.
SAVES = 4
REMEDY = "bring it back, or begin anew with --restart, which moves what is there aside"


def check_checkpoints(workdir: Path, checkpoint_every: int) -> None:
    """Refuses a workdir without checkpoints whose other files say that it had some.

    A run that was killed before its first save had none, and begins anew.

    Args:
      workdir: the run's directory, which has no checkpoint.
      checkpoint_every: steps between two saves.

    Raises:
      InputError: they are gone; says what tells so.
    """
    sign = ""
    if (workdir / RESULT).exists():
        sign = f"{RESULT} is there"
    elif any(s.get("step") or s.get(manifest.SAVED) for s in manifest.read_starts(workdir)):
        sign = f"{manifest.MANIFEST} says that there was one"
    elif (workdir / METRICS).exists():
        last = max((line["step"] for line in read_metrics(workdir)), default=0)
        if last > SAVES * checkpoint_every:
            sign = f"{METRICS} comes to step {last:,}"
    if sign:
        raise InputError(f"{workdir}: its checkpoints are gone, although {sign}; {REMEDY}")


def check_best(workdir: Path, step: int, checkpoints: Checkpoints) -> None:
    """Refuses a workdir whose best checkpoint is gone, or another run's, which a run ends with.

    Args:
      workdir: the run's directory.
      step: of the best, as the checkpoint says that the run goes on from; 0: there was none yet.
      checkpoints: the run's.

    Raises:
      InputError: it isn't there.
    """
    theirs = checkpoints.saved_run(("best",))
    if theirs.get("id") != checkpoints.run.get("id", theirs.get("id")) and theirs:
        raise InputError(f"{workdir}: its best checkpoint is of another run; {REMEDY}")
    # A damaged one is there, and told when it is read; the run may come to it again.
    newer = max(checkpoints.best_steps(), default=0) > step  # saved before the run was killed
    if step and step not in checkpoints.steps() and not newer:
        raise InputError(f"{workdir}: its best checkpoint, of step {step:,}, is gone; {REMEDY}")


def check_result(workdir: Path, best_step: int, step: int) -> None:
    """Refuses to put another checkpoint's figures in place of those of a best that is damaged.

    Args:
      workdir: the run's directory.
      best_step: of its best checkpoint; 0: there is none.
      step: of the checkpoint that could be read in its place, or of the best itself.

    Raises:
      RunError: result.json holds the best one's figures, and nobody could bring them back.
    """
    if not best_step or step == best_step:
        return
    if (metrics_log.read_result(workdir) or {}).get("step") == best_step:
        raise RunError(
            f"{workdir}: its best checkpoint, of step {best_step:,}, is damaged, and {RESULT}, "
            "which holds its figures, stays as it is; bring a copy of it back, or evaluate "
            f"step {step:,} with --mode=evaluate --checkpoint={step}"
        )


def check_metrics(workdir: Path, step: int, lines: int, digest: int = 0) -> None:
    """Refuses a metrics.jsonl that isn't what it was when a checkpoint was saved.

    Args:
      workdir: the run's directory.
      step: of the checkpoint.
      lines: that the file had then, all on the disk before the checkpoint was.
      digest: of these lines; 0: an older version didn't note it.

    Raises:
      InputError: it is gone, or lines of it are, or they are another run's or damaged.
    """
    there = 0
    if lines and (workdir / METRICS).exists():
        there = sum(line["step"] <= step for line in read_metrics(workdir))
    if there < lines:
        raise InputError(
            f"{workdir / METRICS} has {there} of the {lines} lines that it had at step {step:,}; "
            f"{REMEDY}"
        )
    if digest and metrics_log.written(workdir, lines) != (lines, digest):
        raise InputError(
            f"{workdir / METRICS} isn't what it was at step {step:,}: it is damaged, or of another "
            f"run; {REMEDY}"
        )
